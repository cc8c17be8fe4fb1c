//! The machine of a worker, and one run of a script on it.

mod api;
pub(crate) mod commands;
mod library;
pub(crate) mod register;
mod sole;
mod to_lua;
mod to_reply;

#[cfg(test)]
mod tests;

use almandine_base::Output;
use almandine_lua::{LuaValue, Machine, MachineOptions, RunEnd as MachineEnd, SoleArgument, Values};
use almandine_resp::{Args, ProtocolVersion};
use hashbrown::HashMap;

use self::api::Api;
use self::commands::{Commands, Verdict};
use self::sole::{Answered, CallMemory, Stage};
use self::to_reply::Writer;
use crate::machines::Machines;
use crate::program::{Program, Script, Sha};
use crate::running::ProgramKind;

/// Scripts that a machine has at hand, beyond which it begins anew.
const LOADED_MAX: usize = 1_000;
/// Backward jumps and calls of a script between two looks at whether it is to go on: far below a millisecond.
const SLICE: u64 = 20_000;

/// What an engine is made with.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Seed of what is random: hashes of strings, and the numbers that scripts ask for.
    pub seed: u64,
    /// Bytes that a run may use.
    pub memory_limit: usize,
    /// `getfenv`, `setfenv` and their like are there.
    pub deprecated: bool,
}

/// A script or function, and what it is given.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// What runs.
    pub program: &'a Program,
    /// `KEYS`
    pub keys: Args<'a>,
    /// `ARGV`
    pub args: Args<'a>,
}

/// How far a run came. The reply is written unless it is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// It has returned.
    Returned,
    /// It has failed, or was killed.
    Failed,
    /// It goes on later, by [`Engine::go_on`].
    Suspended,
}

/// A run that has begun.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The protocol in which the script gets replies.
    chosen: ProtocolVersion,
    /// There was no memory for its code.
    is_unloaded: bool,
    stage: Stage,
}

/// The machine of a worker.
#[derive(Debug)]
pub struct Engine {
    options: EngineOptions,
    machine: Machine,
    /// The lists that scripts find their keys and arguments in, once one has run.
    lists: Option<[LuaValue; 2]>,
    /// The scripts that have run on it: nothing at first, then their functions.
    loaded: HashMap<Sha, Option<LuaValue>, rapidhash::fast::RandomState>,
    /// The functions of libraries, by the number of the library.
    libraries: HashMap<u64, Vec<LuaValue>, rapidhash::fast::RandomState>,
    /// The generation of the libraries, in the machine of a worker for functions.
    pub of_libraries: Option<u64>,
    /// That of the script that ran last.
    last: Option<(Sha, LuaValue)>,
    /// See [`Machines`].
    generation: u64,
    memory: CallMemory,
    /// Values for a table.
    values: Vec<LuaValue>,
    /// The seed of the next run.
    seed: u64,
    run: Option<Run>,
    /// Bytes of the machine that the statistics know of.
    reported: usize,
    /// Bytes that it took when it had nothing but what is used.
    settled: usize,
}

impl Engine {
    /// A machine.
    #[must_use]
    pub fn new(options: EngineOptions) -> Self {
        let machine = machine(&options);
        let settled = machine.memory_used();
        Self {
            options,
            machine,
            lists: None,
            loaded: HashMap::default(),
            libraries: HashMap::default(),
            of_libraries: None,
            last: None,
            generation: 0,
            memory: CallMemory::default(),
            values: Vec::new(),
            seed: options.seed,
            run: None,
            reported: 0,
            settled,
        }
    }

    /// Prepares a run; [`Engine::go_on`] runs it.
    pub fn start(&mut self, machines: &Machines, invocation: &Invocation<'_>) {
        self.follow(machines);
        let Invocation { program, keys, args } = invocation;
        if program.sole_call().is_some_and(|sole| self.memory.prepare(sole, [keys, args])) {
            self.run = Some(Run { chosen: ProtocolVersion::Resp2, is_unloaded: false, stage: Stage::Prepared });
            return;
        }
        let is_used = match program {
            Program::Script(script) => script.uses,
            Program::Function(_) => [true; 2],
        };
        self.start_machine(program, |engine, number, list| {
            let given = if number == 0 { keys } else { args };
            if is_used[number] { Values::of(&mut engine.machine).fill_late(list, given.iter()) } else { list }
        });
    }

    /// Starts the machine. `fill` fills the list of its keys, and then that of its arguments, or makes one.
    fn start_machine(&mut self, program: &Program, fill: impl Fn(&mut Self, usize, LuaValue) -> LuaValue) {
        let mut lists = [LuaValue::Nil; 2];
        let (function, arguments) = match program {
            Program::Script(script) => {
                lists = self.lists();
                (self.function(script), 0)
            }
            Program::Function(function) => {
                let functions = self.libraries.get(&function.library.number);
                debug_assert!(functions.is_some(), "a function runs where its library is");
                (Some(functions.and_then(|functions| functions.get(function.place)).copied().unwrap_or_default()), lists.len())
            }
        };
        // When its code is loaded, which may be kept.
        for (number, list) in lists.iter_mut().enumerate() {
            *list = fill(self, number, *list);
        }
        self.seed = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.machine.seed_random((self.seed >> 33) as i32);
        self.machine.start(function.unwrap_or_default(), &lists[..arguments]);
        let is_unloaded = function.is_none();
        self.run = Some(Run { chosen: ProtocolVersion::Resp2, is_unloaded, stage: Stage::Machine });
    }

    /// Runs what was started to its end, or to where it is suspended. What it returns, or its error, is a reply in the client's
    /// protocol.
    pub fn go_on(&mut self, program: &Program, commands: &mut dyn Commands, version: ProtocolVersion, out: &mut Output) -> RunEnd {
        let Some(mut run) = self.run.take() else { return RunEnd::Failed };
        let (mut is_answered, mut is_over) = (false, false);
        if run.stage == Stage::Prepared {
            if version == ProtocolVersion::Resp2 {
                match self.memory.answer(commands, out) {
                    Answered::Written => return RunEnd::Returned,
                    Answered::Kept => is_answered = true,
                    Answered::Later => {
                        self.run = Some(run);
                        return RunEnd::Suspended;
                    }
                    Answered::Never => is_over = true,
                }
            }
            let sole = program.sole_call().unwrap_or_default();
            self.start_machine(program, |engine, number, list| {
                engine.gather_of_call(sole, number);
                if list.is_nil() {
                    return engine.machine.list(&engine.values);
                }
                engine.machine.fill(list, &engine.values);
                list
            });
            run = self.run.take().unwrap_or(run);
        }
        // What a script returns in the protocol in which it has got it is not taken apart.
        let mark = out.mark();
        let reply = (version == ProtocolVersion::Resp2).then_some(&mut *out);
        let memory = &mut self.memory;
        let mut api = Api { commands, memory, chosen: run.chosen, registered: None, reply, has_replied: false, is_answered };
        let (ended, verdict) = loop {
            if run.is_unloaded {
                break (MachineEnd::Failed, Verdict::GoOn);
            }
            if is_over {
                break (MachineEnd::Suspended, Verdict::End);
            }
            let ended = self.machine.run(&mut api, SLICE);
            let verdict = if ended == MachineEnd::Suspended { api.commands.verdict() } else { Verdict::GoOn };
            if ended != MachineEnd::Suspended || verdict != Verdict::GoOn {
                break (ended, verdict);
            }
        };
        let (run, has_replied) = (Run { chosen: api.chosen, ..run }, api.has_replied);
        if verdict == Verdict::Suspend {
            self.run = Some(run);
            return RunEnd::Suspended;
        }
        let end = match ended {
            MachineEnd::Done if has_replied => RunEnd::Returned,
            MachineEnd::Done => {
                let value = self.machine.results().first().copied().unwrap_or_default();
                Writer { machine: &mut self.machine, out, version, chosen: run.chosen, commands }.write(value);
                RunEnd::Returned
            }
            ended => {
                out.truncate(mark);
                let (text, counted) = self.error_of(program, run.is_unloaded, ended);
                let machine = &mut self.machine;
                Writer { machine, out, version, chosen: run.chosen, commands }.error(&text, counted);
                RunEnd::Failed
            }
        };
        self.machine.reset();
        end
    }

    /// Gives up what was started, if it has not ended.
    pub fn abandon(&mut self) {
        if self.run.take().is_some() {
            self.machine.reset();
        }
    }

    /// Bytes that the machine takes.
    pub(crate) fn memory_used(&self) -> usize {
        self.machine.memory_used()
    }

    /// Tells the statistics how much memory the machine takes, once a run has ended.
    pub fn note_memory(&mut self, machines: &Machines) {
        let used = self.machine.memory_used();
        if used != self.reported {
            machines.note(used as i64 - self.reported as i64);
            self.reported = used;
        }
    }

    /// The machine is not used any more.
    pub fn retire(self, machines: &Machines) {
        machines.note(-(self.reported as i64));
    }

    /// Begins anew with an empty machine when the scripts were flushed, or are many.
    fn follow(&mut self, machines: &Machines) {
        let generation = machines.generation();
        // The machine of libraries has loaded no scripts, and lives as long as they do.
        if !self.loaded.is_empty() && (generation != self.generation || self.loaded.len() > LOADED_MAX) {
            self.generation = generation;
            self.loaded.clear();
            self.last = None;
            (self.machine, self.lists) = (machine(&self.options), None);
        }
    }

    /// The function of a script. It is kept from its second run on: many run but once.
    fn function(&mut self, script: &Script) -> Option<LuaValue> {
        if let Some((sha, function)) = self.last
            && sha == script.sha
        {
            return Some(function);
        }
        if let Some(Some(function)) = self.loaded.get(&script.sha) {
            self.last = Some((script.sha, *function));
            return Some(*function);
        }
        let function = self.machine.load(&script.proto)?;
        let again = self.loaded.insert(script.sha, None).is_some();
        if again {
            self.machine.keep();
            self.loaded.insert(script.sha, Some(function));
            Values::of(&mut self.machine).limit_memory(self.options.memory_limit);
        }
        Some(function)
    }

    /// The lists that scripts find their keys and arguments in.
    fn lists(&mut self) -> [LuaValue; 2] {
        *self.lists.get_or_insert_with(|| NAMES.map(|name| Values::of(&mut self.machine).list_for_runs(name)))
    }

    /// Makes values of the keys, or of the arguments, that the one call has used, each at its place.
    fn gather_of_call(&mut self, sole: &[SoleArgument], list: usize) {
        self.values.clear();
        for (number, argument) in sole.iter().enumerate() {
            let place = match (argument, list) {
                (SoleArgument::Key(place), 0) | (SoleArgument::Argument(place), 1) => *place,
                _ => continue,
            };
            let value = Values::of(&mut self.machine).late_string(self.memory.args.as_args().at(number));
            self.values.resize(self.values.len().max(place + 1), LuaValue::Nil);
            self.values[place] = value;
        }
    }

    /// The error that a run has ended with, and whether it is part of the statistics already.
    fn error_of(&mut self, program: &Program, is_unloaded: bool, ended: MachineEnd) -> (Vec<u8>, bool) {
        if ended != MachineEnd::Failed {
            Values::of(&mut self.machine).note_place();
            return (
                self.with_place(
                    match program.kind() {
                        ProgramKind::Script => b"ERR Script killed by user with SCRIPT KILL.",
                        ProgramKind::Function => b"ERR Script killed by user with FUNCTION KILL.",
                    },
                    program,
                ),
                false,
            );
        }
        let error = self.machine.results().first().copied().unwrap_or_default();
        let (mut text, mut counted) = (b"ERR ".to_vec(), false);
        match error {
            LuaValue::Table(_) => {
                let message = Values::of(&mut self.machine).field(error, "err");
                counted = Values::of(&mut self.machine).field(error, to_lua::IS_COUNTED).is_true();
                text = Values::of(&mut self.machine).text(message).unwrap_or_else(|| b"ERR unknown error".to_vec());
            }
            _ if is_unloaded || Values::of(&mut self.machine).is_text(error, NO_MEMORY) => {
                // Without a place: there is no room for it.
                return ([b"ERR Error running script ", &program.name()[..], b", ", NO_MEMORY].concat(), false);
            }
            other => {
                let message = Values::of(&mut self.machine).text(other);
                text.extend(message.unwrap_or_else(|| shown(other).into()));
            }
        }
        (self.with_place(&text, program), counted)
    }

    /// An error with the name of the script, and where in it.
    fn with_place(&mut self, text: &[u8], program: &Program) -> Vec<u8> {
        match Values::of(&mut self.machine).place() {
            Some((source, line)) => {
                let place = [b" script: ", &program.name()[..], b", on ", source].concat();
                [text, &place, format!(":{line}.").as_bytes()].concat()
            }
            None => text.to_vec(),
        }
    }
}

/// The tables that a script finds its keys and arguments in.
pub(crate) const NAMES: [&str; 2] = ["KEYS", "ARGV"];
/// What a run fails with that has used up its memory.
const NO_MEMORY: &[u8] = b"not enough memory";

/// What `tostring` gives, without an address.
fn shown(value: LuaValue) -> &'static str {
    match value {
        LuaValue::Boolean(true) => "true",
        LuaValue::Boolean(false) => "false",
        other => other.type_name(),
    }
}

fn machine(options: &EngineOptions) -> Machine {
    let mut machine = Machine::new(&MachineOptions {
        seed: options.seed,
        memory_limit: options.memory_limit,
        deprecated: options.deprecated,
        error_tables: true,
    });
    machine.set_clock(|| almandine_io::clock::monotonic_ns() as f64 / 1e9);
    library::install(&mut machine);
    Values::of(&mut machine).limit_memory(options.memory_limit);
    machine
}
