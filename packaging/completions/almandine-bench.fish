# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_almandine_bench_global_optspecs
    string join \n h/help V/version
end

function __fish_almandine_bench_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_almandine_bench_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_almandine_bench_using_subcommand
    set -l cmd (__fish_almandine_bench_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -s V -l version -d 'Print version'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "offline" -d 'Measure the maximum throughput (closed loop)'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "online" -d 'Measure latency at a fixed rate (open loop, from the intended send time)'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "load" -d 'Fill a server with keys and measure nothing'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "sweep" -d 'Measure one server over a grid of loads'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "compare" -d 'Start our server and its peers, alternate loads between them, print medians and ratios'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "grid" -d 'Compare workloads of every data type within a given time, and write Markdown tables'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "memory" -d 'Measure resident bytes per object for several shapes'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "latency" -d 'Measure the latency tail at a share of saturation, also while the keys double'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "churn" -d 'Overwrite values with changing sizes and compare resident with live bytes'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "expire" -d 'Let many keys fall due and measure how late they go'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "cold" -d 'Load more than fits into memory, read it back, and compare with what the device gives to fio'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "soak" -d 'Churn for an hour with every reply checked, and watch memory, device and key count'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "hits" -d 'Bound the memory of several servers to the same number of keys and compare how often a cache hits'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "pubsub" -d 'Measure what publishing costs by subscribers, publishers and batch size, every message counted'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "handover" -d 'Measure what handing elements to waiting connections costs, and how late timeouts are'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "floor" -d 'Measure our server against canned replies, the kernel\'s floor, under the same load'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "plot" -d 'Draw JSON results as SVG and PNG'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "list" -d 'Show all workloads of --operation and --mix'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "launch" -d 'Become a pinned server'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "canned" -d 'Answer everything with canned replies'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "print-reference" -d 'Print the manual page or the completions of a shell'
complete -c almandine-bench -n "__fish_almandine_bench_needs_command" -f -a "remove-afterwards" -d 'Wait for the end of standard input and remove a folder'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s h -l host -d 'Host that the server runs on' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s p -l port -d 'Port that it listens on' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l address -d 'Where it listens, instead of host and port: host:port or unix:/path' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l user -d 'ACL user to log in as' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s a -l password -d 'Password to log in with. Other users of the machine see command lines; the environment is safer' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l database -d 'Database to SELECT' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l resp -d 'Protocol version' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l server-pid -d 'Process whose CPU time and memory are read; found through INFO when the server is local' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s o -l operation -d 'One workload by name; `almandine-bench list` shows them' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s m -l mix -d 'Several workloads with weights: get=80,set=20' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l command -d 'Any command: words with __key__ __value__ __rand__ __member__ __score__ __index__ __offset__ __bit__, repeated groups in {}' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s k -l keys -d 'Number of keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l key-length -d 'Length of every key in bytes' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l key-prefix -d 'How every key begins (after a letter for its type)' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s v -l value -d 'Value length: 64, 1-2000, or weighted as in 8:50,100:30,1-2000:20' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s d -l distribution -d 'How keys are chosen' -r -f -a "uniform\t'Every key equally often'
zipf\t'Few keys very often, see --zipf-theta'
sequential\t'One after the other'
hotspot\t'--hot-operations of the operations go to --hot-keys of the keys'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l zipf-theta -d 'Exponent of the Zipf distribution, above 0 and below 1' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l hot-keys -d 'Share of the keys that is hot' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l hot-operations -d 'Share of the operations on hot keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l members -d 'Elements per collection' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l member-length -d 'Length of a member or field name' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l group -d 'Repetitions of what stands in braces: keys per MGET, MSET, …' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s c -l connections -d 'Connections over all threads' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s t -l threads -d 'Client threads' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s P -l pipeline -d 'Commands per batch' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s s -l time -d 'Length of the measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l warm-up -d 'Load before the measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l preload -d 'Fill the server first' -r -f -a "no\t'Never'
missing\t'What is missing, judged by DBSIZE; resumes an interrupted load'
all\t'Every key'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l pin -d 'Pin client threads to these cores, as in 1 or 2-3' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l seed -d 'Seed of all random choices' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l pool -d 'Prepared requests per thread in MiB' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s n -l count -d 'Measure this many commands instead of a time (of at most an hour)' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l in-flight -d 'Batches in flight per connection' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l flush -d 'Delete all keys of the server first'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l verify -d 'Check the type of every reply and the bytes of every value; slower'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l fresh-keys -d 'Rewrite keys on every use even where the pool names enough of them'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand offline" -l spin -d 'Poll instead of sleeping, so that the server never pays for waking the client; takes whole cores'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s h -l host -d 'Host that the server runs on' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s p -l port -d 'Port that it listens on' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l address -d 'Where it listens, instead of host and port: host:port or unix:/path' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l user -d 'ACL user to log in as' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s a -l password -d 'Password to log in with. Other users of the machine see command lines; the environment is safer' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l database -d 'Database to SELECT' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l resp -d 'Protocol version' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l server-pid -d 'Process whose CPU time and memory are read; found through INFO when the server is local' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s o -l operation -d 'One workload by name; `almandine-bench list` shows them' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s m -l mix -d 'Several workloads with weights: get=80,set=20' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l command -d 'Any command: words with __key__ __value__ __rand__ __member__ __score__ __index__ __offset__ __bit__, repeated groups in {}' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s k -l keys -d 'Number of keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l key-length -d 'Length of every key in bytes' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l key-prefix -d 'How every key begins (after a letter for its type)' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s v -l value -d 'Value length: 64, 1-2000, or weighted as in 8:50,100:30,1-2000:20' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s d -l distribution -d 'How keys are chosen' -r -f -a "uniform\t'Every key equally often'
zipf\t'Few keys very often, see --zipf-theta'
sequential\t'One after the other'
hotspot\t'--hot-operations of the operations go to --hot-keys of the keys'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l zipf-theta -d 'Exponent of the Zipf distribution, above 0 and below 1' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l hot-keys -d 'Share of the keys that is hot' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l hot-operations -d 'Share of the operations on hot keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l members -d 'Elements per collection' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l member-length -d 'Length of a member or field name' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l group -d 'Repetitions of what stands in braces: keys per MGET, MSET, …' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s c -l connections -d 'Connections over all threads' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s t -l threads -d 'Client threads' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s P -l pipeline -d 'Commands per batch' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s s -l time -d 'Length of the measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l warm-up -d 'Load before the measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l preload -d 'Fill the server first' -r -f -a "no\t'Never'
missing\t'What is missing, judged by DBSIZE; resumes an interrupted load'
all\t'Every key'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l pin -d 'Pin client threads to these cores, as in 1 or 2-3' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l seed -d 'Seed of all random choices' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l pool -d 'Prepared requests per thread in MiB' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s r -l rate -d 'Commands per second over all threads' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l arrivals -d 'Spacing of the requests' -r -f -a "even\t''
poisson\t''"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l flush -d 'Delete all keys of the server first'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l verify -d 'Check the type of every reply and the bytes of every value; slower'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l fresh-keys -d 'Rewrite keys on every use even where the pool names enough of them'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand online" -l spin -d 'Poll instead of sleeping, for exact send times; takes whole cores'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s h -l host -d 'Host that the server runs on' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s p -l port -d 'Port that it listens on' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l address -d 'Where it listens, instead of host and port: host:port or unix:/path' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l user -d 'ACL user to log in as' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s a -l password -d 'Password to log in with. Other users of the machine see command lines; the environment is safer' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l database -d 'Database to SELECT' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l resp -d 'Protocol version' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l server-pid -d 'Process whose CPU time and memory are read; found through INFO when the server is local' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s o -l operation -d 'One workload by name; `almandine-bench list` shows them' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s m -l mix -d 'Several workloads with weights: get=80,set=20' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l command -d 'Any command: words with __key__ __value__ __rand__ __member__ __score__ __index__ __offset__ __bit__, repeated groups in {}' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s k -l keys -d 'Number of keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l key-length -d 'Length of every key in bytes' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l key-prefix -d 'How every key begins (after a letter for its type)' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s v -l value -d 'Value length: 64, 1-2000, or weighted as in 8:50,100:30,1-2000:20' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s d -l distribution -d 'How keys are chosen' -r -f -a "uniform\t'Every key equally often'
zipf\t'Few keys very often, see --zipf-theta'
sequential\t'One after the other'
hotspot\t'--hot-operations of the operations go to --hot-keys of the keys'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l zipf-theta -d 'Exponent of the Zipf distribution, above 0 and below 1' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l hot-keys -d 'Share of the keys that is hot' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l hot-operations -d 'Share of the operations on hot keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l members -d 'Elements per collection' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l member-length -d 'Length of a member or field name' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l group -d 'Repetitions of what stands in braces: keys per MGET, MSET, …' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s c -l connections -d 'Connections over all threads' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s t -l threads -d 'Client threads' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s P -l pipeline -d 'Commands per batch' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s s -l time -d 'Length of the measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l warm-up -d 'Load before the measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l preload -d 'Fill the server first' -r -f -a "no\t'Never'
missing\t'What is missing, judged by DBSIZE; resumes an interrupted load'
all\t'Every key'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l pin -d 'Pin client threads to these cores, as in 1 or 2-3' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l seed -d 'Seed of all random choices' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l pool -d 'Prepared requests per thread in MiB' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l flush -d 'Delete all keys of the server first'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l verify -d 'Check the type of every reply and the bytes of every value; slower'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -l fresh-keys -d 'Rewrite keys on every use even where the pool names enough of them'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand load" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -s h -l host -d 'Host that the server runs on' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -s p -l port -d 'Port that it listens on' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l address -d 'Where it listens, instead of host and port: host:port or unix:/path' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l user -d 'ACL user to log in as' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -s a -l password -d 'Password to log in with. Other users of the machine see command lines; the environment is safer' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l database -d 'Database to SELECT' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l resp -d 'Protocol version' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l server-pid -d 'Process whose CPU time and memory are read; found through INFO when the server is local' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -s o -l operations -d 'Operations; a mix is written with plus signs: get=80+set=20' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l pipelines -d 'Values of --pipeline to visit' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l connection-counts -d 'Values of --connections to visit' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l key-counts -d 'Values of --keys to visit, in rising order so that --preload only adds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -s k -l keys -d 'Number of keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l key-length -d 'Length of every key in bytes' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l key-prefix -d 'How every key begins (after a letter for its type)' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -s v -l value -d 'Value length: 64, 1-2000, or weighted as in 8:50,100:30,1-2000:20' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -s d -l distribution -d 'How keys are chosen' -r -f -a "uniform\t'Every key equally often'
zipf\t'Few keys very often, see --zipf-theta'
sequential\t'One after the other'
hotspot\t'--hot-operations of the operations go to --hot-keys of the keys'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l zipf-theta -d 'Exponent of the Zipf distribution, above 0 and below 1' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l hot-keys -d 'Share of the keys that is hot' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l hot-operations -d 'Share of the operations on hot keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l members -d 'Elements per collection' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l member-length -d 'Length of a member or field name' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l group -d 'Repetitions of what stands in braces: keys per MGET, MSET, …' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -s c -l connections -d 'Connections over all threads' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -s t -l threads -d 'Client threads' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -s P -l pipeline -d 'Commands per batch' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -s s -l time -d 'Length of the measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l warm-up -d 'Load before the measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l preload -d 'Fill the server first' -r -f -a "no\t'Never'
missing\t'What is missing, judged by DBSIZE; resumes an interrupted load'
all\t'Every key'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l pin -d 'Pin client threads to these cores, as in 1 or 2-3' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l seed -d 'Seed of all random choices' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l pool -d 'Prepared requests per thread in MiB' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l flush -d 'Delete all keys of the server first'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l verify -d 'Check the type of every reply and the bytes of every value; slower'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -l fresh-keys -d 'Rewrite keys on every use even where the pool names enough of them'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand sweep" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l server-binary -d 'Our server; otherwise looked for beside this program, in target/release and in PATH' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l server-arg -d 'One more argument for our server; may be repeated' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l variant -d 'One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l binary -d 'A peer\'s program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name begins with that of a server that is known' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l peer -d 'A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l only -d 'Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l server-cores -d 'Cores of the servers; default: the first one' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l load-cores -d 'Cores of the load; default: all others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l server-threads -d 'Worker threads per server; default: one per server core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l baseline -d 'The server that ratios refer to; default: the first that is not ours' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -s o -l operations -d 'Operations, measured one after the other. A mix is written with plus signs: get=80+set=20' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -s P -l pipeline -d 'Batch sizes' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -s c -l connections -d 'Connections over all threads' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -s t -l threads -d 'Client threads; default: one per load core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -s s -l time -d 'Length of one measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l warm-up -d 'Load before each measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -s n -l repeats -d 'Measurements per server and load' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l require -d 'Fail unless our CPU per command is at most this share of the baseline\'s: OPERATION@PIPELINE=RATIO, as in get@16=0.25' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -s k -l keys -d 'Number of keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l key-length -d 'Length of every key in bytes' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l key-prefix -d 'How every key begins (after a letter for its type)' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -s v -l value -d 'Value length: 64, 1-2000, or weighted as in 8:50,100:30,1-2000:20' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -s d -l distribution -d 'How keys are chosen' -r -f -a "uniform\t'Every key equally often'
zipf\t'Few keys very often, see --zipf-theta'
sequential\t'One after the other'
hotspot\t'--hot-operations of the operations go to --hot-keys of the keys'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l zipf-theta -d 'Exponent of the Zipf distribution, above 0 and below 1' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l hot-keys -d 'Share of the keys that is hot' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l hot-operations -d 'Share of the operations on hot keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l members -d 'Elements per collection' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l member-length -d 'Length of a member or field name' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l group -d 'Repetitions of what stands in braces: keys per MGET, MSET, …' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l floor -d 'Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l spin -d 'Let the client poll instead of sleep, so that servers never pay for waking it'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -l quick -d 'Three repeats of one second'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l server-binary -d 'Our server; otherwise looked for beside this program, in target/release and in PATH' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l server-arg -d 'One more argument for our server; may be repeated' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l variant -d 'One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l binary -d 'A peer\'s program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name begins with that of a server that is known' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l peer -d 'A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l only -d 'Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l server-cores -d 'Cores of the servers; default: the first one' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l load-cores -d 'Cores of the load; default: all others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l server-threads -d 'Worker threads per server; default: one per server core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l baseline -d 'The server that ratios refer to; default: the first that is not ours' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l minutes -d 'How long all of it may take' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -s n -l repeats -d 'Measurements per server and load' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l groups -d 'Only these groups: strings,values,small-hashes,hashes,lists,sets,sorted-sets,streams,geo,hyperloglogs' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -s P -l pipeline -d 'Only these batch sizes; otherwise 1, 16, 64 and 256 as suits the command' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l scale -d 'Share of the usual numbers of keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l markdown -d 'Where the tables go besides the terminal' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l floor -d 'Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -l quick -d 'Two minutes, one measurement each at P=16, a tenth of the keys'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand grid" -s h -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l server-binary -d 'Our server; otherwise looked for beside this program, in target/release and in PATH' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l server-arg -d 'One more argument for our server; may be repeated' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l variant -d 'One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l binary -d 'A peer\'s program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name begins with that of a server that is known' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l peer -d 'A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l only -d 'Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l server-cores -d 'Cores of the servers; default: the first one' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l load-cores -d 'Cores of the load; default: all others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l server-threads -d 'Worker threads per server; default: one per server core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l baseline -d 'The server that ratios refer to; default: the first that is not ours' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -s k -l keys -d 'Objects per shape; of large collections fewer, so that there are at most a hundred times as many elements' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l churn -d 'Then remove and set random fields of the hashes for so many seconds, fill them again, and say how much more is used' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l shapes -d 'Only these shapes; `--shapes help` shows them' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l floor -d 'Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -l quick -d '50,000 objects per shape'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand memory" -s h -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l server-binary -d 'Our server; otherwise looked for beside this program, in target/release and in PATH' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l server-arg -d 'One more argument for our server; may be repeated' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l variant -d 'One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l binary -d 'A peer\'s program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name begins with that of a server that is known' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l peer -d 'A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l only -d 'Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l server-cores -d 'Cores of the servers; default: the first one' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l load-cores -d 'Cores of the load; default: all others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l server-threads -d 'Worker threads per server; default: one per server core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l baseline -d 'The server that ratios refer to; default: the first that is not ours' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -s o -l operations -d 'Operation or mix' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -s c -l connections -d 'Connections' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -s P -l pipeline -d 'Commands per batch' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l share -d 'Share of the measured saturation' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -s r -l rate -d 'Commands per second for every server, instead of a share of its saturation' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -s s -l time -d 'Length of each phase in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -s n -l repeats -d 'Repeats of each phase, alternating between the servers; medians are printed' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l grow -d 'Also measure while the number of keys doubles' -r -f -a "true\t''
false\t''"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -s k -l keys -d 'Number of keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l key-length -d 'Length of every key in bytes' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l key-prefix -d 'How every key begins (after a letter for its type)' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -s v -l value -d 'Value length: 64, 1-2000, or weighted as in 8:50,100:30,1-2000:20' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -s d -l distribution -d 'How keys are chosen' -r -f -a "uniform\t'Every key equally often'
zipf\t'Few keys very often, see --zipf-theta'
sequential\t'One after the other'
hotspot\t'--hot-operations of the operations go to --hot-keys of the keys'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l zipf-theta -d 'Exponent of the Zipf distribution, above 0 and below 1' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l hot-keys -d 'Share of the keys that is hot' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l hot-operations -d 'Share of the operations on hot keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l members -d 'Elements per collection' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l member-length -d 'Length of a member or field name' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l group -d 'Repetitions of what stands in braces: keys per MGET, MSET, …' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l floor -d 'Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l no-spin -d 'Sleep between sends instead of polling'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -l quick -d 'One repeat of 3 s'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand latency" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l server-binary -d 'Our server; otherwise looked for beside this program, in target/release and in PATH' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l server-arg -d 'One more argument for our server; may be repeated' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l variant -d 'One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l binary -d 'A peer\'s program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name begins with that of a server that is known' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l peer -d 'A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l only -d 'Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l server-cores -d 'Cores of the servers; default: the first one' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l load-cores -d 'Cores of the load; default: all others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l server-threads -d 'Worker threads per server; default: one per server core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l baseline -d 'The server that ratios refer to; default: the first that is not ours' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -s k -l keys -d 'Number of keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -s v -l value -d 'Value lengths' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -s m -l mix -d 'What is done; for example set=80,del=10,setex=10' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -s s -l time -d 'Length in seconds per server' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -s P -l pipeline -d 'Commands per batch' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l floor -d 'Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -l quick -d '50,000 keys, 5 s'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand churn" -s h -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l server-binary -d 'Our server; otherwise looked for beside this program, in target/release and in PATH' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l server-arg -d 'One more argument for our server; may be repeated' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l variant -d 'One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l binary -d 'A peer\'s program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name begins with that of a server that is known' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l peer -d 'A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l only -d 'Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l server-cores -d 'Cores of the servers; default: the first one' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l load-cores -d 'Cores of the load; default: all others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l server-threads -d 'Worker threads per server; default: one per server core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l baseline -d 'The server that ratios refer to; default: the first that is not ours' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -s k -l keys -d 'Number of keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l over -d 'Seconds over which they fall due' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l lead -d 'Seconds from the start of loading to the first due time' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l patience -d 'Give up this many seconds after the last key was due' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l floor -d 'Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -l quick -d '100,000 keys over 3 s'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand expire" -s h -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l server-binary -d 'Our server; otherwise looked for beside this program, in target/release and in PATH' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l server-arg -d 'One more argument for our server; may be repeated' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l variant -d 'One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l binary -d 'A peer\'s program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name begins with that of a server that is known' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l peer -d 'A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l only -d 'Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l server-cores -d 'Cores of the servers; default: the first one' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l load-cores -d 'Cores of the load; default: all others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l server-threads -d 'Worker threads per server; default: one per server core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l baseline -d 'The server that ratios refer to; default: the first that is not ours' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l shapes -d 'Data sets: number of keys x bytes per value' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l maxmemory -d 'Memory budget of the server' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l scale -d 'Multiplies the number of keys and the memory budget' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l dir -d 'Where the data goes, in a folder of its own that is removed afterwards; default: the system\'s temporary directory' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -s P -l pipeline -d 'Batch sizes' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -s c -l connections -d 'Connections' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l connections-deep -d 'Connections for batches of 256 and more' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l keys -d 'Choice of the keys that are read' -r -f -a "uniform\t'Every key equally often'
zipf\t'Few keys very often'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l zipf-theta -d 'Exponent of the Zipf distribution, above 0 and below 1' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l read-cache -d 'Keep records that were read in memory' -r -f -a "on\t'As the server does by default'
off\t'`storage-copy-reads none`'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l caching-warm-up -d 'With --compare-caching: GETs per key before the measurement' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -s s -l time -d 'Length of one measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l warm-up -d 'Load before each measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -s n -l repeats -d 'Measurements per batch size' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l load-pipeline -d 'Commands per batch while loading' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l load-connections -d 'Connections while loading: few, so that a batch does not queue behind the others and a stall is the server\'s' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l floor -d 'Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l compare-caching -d 'Instead of all that: device reads per GET by Zipf, with the default settings and with --read-cache off'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l skip-in-memory -d 'Do not load in memory first'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l no-fio -d 'Do not measure the device with fio'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l in-memory -d 'No device for the server: what it, the client and the network cost without one. Any server; fio still runs'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l verify -d 'Check every value that is read; costs the client more'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l check -d 'Fail when a limit is missed'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -l quick -d 'A fiftieth of the data, one repeat of a second'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand cold" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l server-binary -d 'Our server; otherwise looked for beside this program, in target/release and in PATH' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l server-arg -d 'One more argument for our server; may be repeated' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l variant -d 'One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l binary -d 'A peer\'s program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name begins with that of a server that is known' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l peer -d 'A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l only -d 'Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l server-cores -d 'Cores of the servers; default: the first one' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l load-cores -d 'Cores of the load; default: all others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l server-threads -d 'Worker threads per server; default: one per server core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l baseline -d 'The server that ratios refer to; default: the first that is not ours' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l minutes -d 'Length in minutes, loading and settling not counted' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l storage-dir -d 'Keep what does not fit into memory on a device, in a folder below this one (default: the system\'s temporary directory) that is removed afterwards. Without this option all data stays in memory' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l maxmemory -d 'Memory budget' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l ratio -d 'Live data in multiples of the memory budget' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -s v -l value -d 'Value lengths' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -s r -l rate -d 'Commands per second; 0 for as many as go, which writes terabytes in an hour' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -s c -l connections -d 'Connections' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l every -d 'Seconds between two samples' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l settle -d 'Seconds that background work has to give space back at the end' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l device-slack -d 'What the device may take beyond 1.5 × live' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l seed -d 'Seed of all choices' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -l floor -d 'Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand soak" -s h -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l server-binary -d 'Our server; otherwise looked for beside this program, in target/release and in PATH' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l server-arg -d 'One more argument for our server; may be repeated' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l variant -d 'One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l binary -d 'A peer\'s program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name begins with that of a server that is known' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l peer -d 'A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l only -d 'Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l server-cores -d 'Cores of the servers; default: the first one' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l load-cores -d 'Cores of the load; default: all others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l server-threads -d 'Worker threads per server; default: one per server core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l baseline -d 'The server that ratios refer to; default: the first that is not ours' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -s k -l keys -d 'Number of keys that are asked for' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -s v -l value -d 'Value length in bytes' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l policies -d 'Policies, by the names of maxmemory-policy' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l workloads -d 'Workloads' -r -f -a "zipf\t'Few keys very often'
zipf-scan\t'The same, with scans over keys that are never asked again'
shift\t'Few keys very often, but not for ever the same ones'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l sizes -d 'Percentages of the keys that fit into memory' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -s n -l requests -d 'Requests that are counted' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l warm-up -d 'Requests before that' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l zipf-theta -d 'Exponent of the Zipf distribution, above 0 and below 1' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l scan-every -d 'Requests between two scans' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l scan-length -d 'Keys per scan, in percent of the keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l shift-every -d 'Requests between two moves of the hot set' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l shift-by -d 'Ranks per move, in percent of the keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l rate -d 'Requests per second; 0 for as many as go. Redis tells ages apart by the second only: see docs/BENCHMARKING.md' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l jobs -d 'Runs at the same time, for use with --rate' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l tolerance -d 'How far the number of keys held may be from that of the first server, in percent' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l seed -d 'Seed of the requests' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l floor -d 'Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -l quick -d '50,000 keys, 300,000 requests after 150,000'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand hits" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l server-binary -d 'Our server; otherwise looked for beside this program, in target/release and in PATH' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l server-arg -d 'One more argument for our server; may be repeated' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l variant -d 'One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l binary -d 'A peer\'s program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name begins with that of a server that is known' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l peer -d 'A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l only -d 'Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l server-cores -d 'Cores of the servers; default: the first one' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l load-cores -d 'Cores of the load; default: all others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l server-threads -d 'Worker threads per server; default: one per server core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l baseline -d 'The server that ratios refer to; default: the first that is not ours' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l subscribers -d 'Numbers of subscribers, all of one channel' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -s P -l pipeline -d 'Messages per batch' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l publishers -d 'Numbers of connections that publish' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -s v -l payload -d 'Bytes per message; its number takes 8' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -s s -l time -d 'Length of one measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l warm-up -d 'Load before each measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -s n -l repeats -d 'Measurements per server and load' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l floor -d 'Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l spin -d 'Poll instead of sleeping, so that servers never pay for waking the client'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l quick -d 'Three repeats of half a second'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -l strict -d 'Fail when a limit that the project has set itself is missed'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand pubsub" -s h -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l server-binary -d 'Our server; otherwise looked for beside this program, in target/release and in PATH' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l server-arg -d 'One more argument for our server; may be repeated' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l variant -d 'One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l binary -d 'A peer\'s program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name begins with that of a server that is known' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l peer -d 'A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l only -d 'Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l server-cores -d 'Cores of the servers; default: the first one' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l load-cores -d 'Cores of the load; default: all others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l server-threads -d 'Worker threads per server; default: one per server core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l baseline -d 'The server that ratios refer to; default: the first that is not ours' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -s o -l operations -d 'Commands that wait' -r -f -a "blpop\t'Served by RPUSH'
bzpopmin\t'Served by ZADD'
xreadgroup\t'XREADGROUP with BLOCK and NOACK, served by XADD'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -s w -l waiters -d 'Connections that wait, each for a key of its own: at least four times as many as are pushed to at once' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -s P -l pipeline -d 'Elements pushed per batch' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l pushers -d 'Numbers of connections that push' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l idle-waiters -d 'Numbers of further keys that are waited for meanwhile, and never come: 0,1000000 shows what a million costs the others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l idle-connections -d 'Connections that wait for those keys, at most' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l timeout-waiters -d 'Numbers of connections that time out, after 50 to 1050 ms each, over and over; five times as long as the rest' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l part -d 'Only this part' -r -f -a "hand-overs\t''
timeouts\t''"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -s s -l time -d 'Length of one measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l warm-up -d 'Load before each measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -s n -l repeats -d 'Measurements per server and load' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l floor -d 'Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l spin -d 'Poll instead of sleeping, so that servers never pay for waking the client'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l quick -d 'Three repeats of half a second'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -l strict -d 'Fail when a limit that the project has set itself is missed'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand handover" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l server-binary -d 'Our server; otherwise looked for beside this program, in target/release and in PATH' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l server-arg -d 'One more argument for our server; may be repeated' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l variant -d 'One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l binary -d 'A peer\'s program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name begins with that of a server that is known' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l peer -d 'A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l only -d 'Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l server-cores -d 'Cores of the servers; default: the first one' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l load-cores -d 'Cores of the load; default: all others' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l server-threads -d 'Worker threads per server; default: one per server core' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l baseline -d 'The server that ratios refer to; default: the first that is not ours' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -s o -l operations -d 'Operations, as in `compare`; limits are for GET and SET' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -s P -l pipeline -d 'Batch sizes' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -s c -l connections -d 'Connections' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -s s -l time -d 'Length of one measurement in seconds' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -s n -l repeats -d 'Measurements per server and load' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l large -d 'Measure GET at P=64 with this many keys instead, against --keys of them at P=256; 30000000 is what the project holds itself to' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -s k -l keys -d 'Number of keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l key-length -d 'Length of every key in bytes' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l key-prefix -d 'How every key begins (after a letter for its type)' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -s v -l value -d 'Value length: 64, 1-2000, or weighted as in 8:50,100:30,1-2000:20' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -s d -l distribution -d 'How keys are chosen' -r -f -a "uniform\t'Every key equally often'
zipf\t'Few keys very often, see --zipf-theta'
sequential\t'One after the other'
hotspot\t'--hot-operations of the operations go to --hot-keys of the keys'"
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l zipf-theta -d 'Exponent of the Zipf distribution, above 0 and below 1' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l hot-keys -d 'Share of the keys that is hot' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l hot-operations -d 'Share of the operations on hot keys' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l members -d 'Elements per collection' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l member-length -d 'Length of a member or field name' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l group -d 'Repetitions of what stands in braces: keys per MGET, MSET, …' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l json -d 'Write all results as JSON, the input of `plot`' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l csv -d 'Write one line per result as CSV' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l floor -d 'Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -l strict -d 'Fail when a limit is missed'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -s q -l quiet -d 'No progress bar'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand floor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand plot" -s o -l out -d 'Folder for the pictures; their names begin with the first file\'s' -r -F
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand plot" -l title -d 'A title for every chart' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand plot" -s h -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand list" -s h -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand launch" -l cores -d 'Cores to run on' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand launch" -s h -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand canned" -l port -d 'Port on 127.0.0.1' -r
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand canned" -s h -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand print-reference" -s h -l help -d 'Print help'
complete -c almandine-bench -n "__fish_almandine_bench_using_subcommand remove-afterwards" -s h -l help -d 'Print help'
