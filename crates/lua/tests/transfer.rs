//! What a machine keeps is the same in the machine that takes it over, and nothing else is there.

use almandine_lua::{LuaValue, Machine, MachineOptions, NoHost, RunEnd, Values, compile};

fn machine() -> Machine {
    let mut machine = Machine::new(&MachineOptions { deprecated: true, ..MachineOptions::default() });
    machine.freeze();
    machine
}

/// What the code returns, kept.
fn keep(machine: &mut Machine, program: &str) -> Vec<LuaValue> {
    let function = machine.load(&compile(program.as_bytes(), b"=user_script").expect("it compiles")).expect("room");
    machine.start(function, &[]);
    assert_eq!(machine.run(&mut NoHost, u64::MAX), RunEnd::Done, "{:?}", texts(machine));
    let results = machine.results().to_vec();
    machine.stop();
    machine.keep();
    results
}

fn texts(machine: &mut Machine) -> Vec<String> {
    let results = machine.results().to_vec();
    let text = |value: &LuaValue| match Values::of(machine).text(*value) {
        Some(text) => String::from_utf8_lossy(&text).into_owned(),
        None => value.type_name().to_owned(),
    };
    results.iter().map(text).collect()
}

fn call(machine: &mut Machine, function: LuaValue) -> Vec<String> {
    machine.start(function, &[]);
    let end = machine.run(&mut NoHost, u64::MAX);
    let texts = texts(machine);
    assert_eq!(end, RunEnd::Done, "{texts:?}");
    machine.reset();
    texts
}

fn take_over(from: &Machine, values: &[LuaValue]) -> (Machine, Vec<LuaValue>) {
    let mut to = machine();
    let taken = Values::of(&mut to).take_over(from, values).expect("they were made in the same way");
    (to, taken)
}

const KEEPS: &str = "
    local n, calls = 0, {}
    local long = ('a long key '):rep(9)
    local t = {1, 2, nil, 4, x = 'y', [long] = 'of a long key', [1.5] = true, [false] = 0}
    t.self, t[t] = t, 'itself'
    t.list = {}
    for i = 1, 40 do t.list[i] = i * i end
    for _, name in ipairs{'zeta', 'alpha', 'mid', 'beta'} do calls[name] = #name end
    calls.alpha = nil
    local seen = setmetatable({}, {__mode = 'k'})
    seen[t] = 'alive'
    seen[{}] = 'dead'
    local held = setmetatable({}, {__mode = 'v'})
    held.here, held.gone, held.text = t, {}, 'text'
    local object = setmetatable({}, {__index = function(_, name) return name .. n end, __call = function(_, m) return m + n end})
    local words = string.gmatch('one two three', '%a+')
    words()
    local co = coroutine.create(function() end)
    local other = setfenv(function() return answer end, {answer = 42})
    local function deep() return function() return function() n = n + 100 return n end end end
    local deeper = deep()()
    local function up() n = n + 1 return n end
    local function all()
        local names = {}
        for name in pairs(calls) do names[#names + 1] = name end
        local weak = 0
        for _ in pairs(seen) do weak = weak + 1 end
        for _ in pairs(held) do weak = weak + 1 end
        return up(), t.self == t, t[t], t[1], t[2], t[4], t.x, t[long], t[1.5], t[false], #t.list, t.list[40],
               table.concat(names, ' '), seen[t], weak, held.here == t, held.text, object.name, object(5), words(),
               coroutine.status(co), other(), deeper(),
               getmetatable('').__index == string, rawequal(_G.string, string), cjson.encode({cjson.null, t.list[3]})
    end
    return all, up, up";

#[test]
fn what_is_kept_goes_on_as_it_was() {
    let mut first = machine();
    let values = keep(&mut first, KEEPS);
    call(&mut first, values[0]);
    // Each takes over from the one before, beside one that stays what it is.
    let (mut second, taken) = take_over(&first, &values);
    let mut goes = taken;
    assert!(matches!((goes[1], goes[2]), (LuaValue::Function(one), LuaValue::Function(other)) if one == other));
    for _ in 0..2 {
        let (mut expected, actual) = (call(&mut first, values[0]), call(&mut second, goes[0]));
        // What only weak references reach has gone.
        assert_eq!(std::mem::replace(&mut expected[14], "3".to_owned()), "5");
        assert_eq!(actual, expected);
        assert_eq!(call(&mut second, goes[1]), call(&mut first, values[1]));
        let (third, taken) = take_over(&second, &goes);
        (second, goes) = (third, taken);
    }
}

#[test]
fn what_nothing_reaches_stays_behind() {
    let mut first = machine();
    let empty = first.memory_used();
    keep(&mut first, "local t = {} for i = 1, 1000 do t[i] = {('text '):rep(20) .. i} end return t");
    let kept = keep(&mut first, "local n = 0 return function() n = n + 1 return n end");
    assert!(first.memory_used() > empty + 100_000);
    let (mut second, taken) = take_over(&first, &kept);
    assert!(second.memory_used() < empty + 2_000, "{} of {empty}", second.memory_used());
    assert_eq!((call(&mut second, taken[0]), call(&mut second, taken[0])), (vec!["1".to_owned()], vec!["2".to_owned()]));
}

#[test]
fn a_machine_that_was_made_in_another_way_takes_nothing_over() {
    let mut first = machine();
    let values = keep(&mut first, "return {}");
    let mut other = Machine::new(&MachineOptions::default());
    other.set_global("more", LuaValue::Nil);
    let table = other.list(&[]);
    other.set_global("redis", table);
    other.freeze();
    assert!(Values::of(&mut other).take_over(&first, &values).is_none());
    let mut lists = machine();
    Values::of(&mut lists).list_for_runs("KEYS");
    assert!(Values::of(&mut machine()).take_over(&lists, &[]).is_none());
}

/// A run that is given up, or a coroutine that never ends, leaves what has captured its variables.
#[test]
fn captured_variables_outlive_what_has_not_ended() {
    let mut machine = machine();
    let values = keep(
        &mut machine,
        "local saved, other
         local function deep(n)
             if n > 0 then return 1 + deep(n - 1) end
             local x = 7
             saved = function() x = x + 1 return x end
             while true do end
         end
         local co = coroutine.wrap(function() local y = 40 other = function() y = y + 1 return y end coroutine.yield() end)
         co()
         local function within() coroutine.wrap(function() deep(10) end)() end
         return function() return deep(5000) end, within, function() return saved(), other() end",
    );
    for (number, endless) in [values[0], values[1]].into_iter().enumerate() {
        machine.start(endless, &[]);
        assert_eq!(machine.run(&mut NoHost, 100_000), RunEnd::Suspended);
        machine.reset();
        // The stack is as short as it was.
        assert_eq!(call(&mut machine, values[2]), ["8".to_owned(), (41 + number).to_string()]);
    }
}
