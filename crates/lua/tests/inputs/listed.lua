-- Calls at the edges of the libraries, one a line, which random ones meet too rarely.
-- What the libraries have.
local names = {} for _, library in ipairs({cjson, cmsgpack, struct, bit}) do for k, v in pairs(library) do names[k] = type(v) == 'string' and v or type(v) end end return names
return tostring(cjson.null), type(cjson.null), cjson.null == cjson.new().null, cjson._NAME, cjson._VERSION, cmsgpack._VERSION
local names = {} for k, v in pairs(cjson.new()) do names[k] = type(v) end return names
local j = cjson.new() j.encode_max_depth(1) return pcall(j.encode, {{}}), cjson.encode({{}}), j.new().encode({{}})
-- Arguments.
return cjson.encode()
return cjson.encode(1, 2)
return cjson.decode()
return cjson.decode(1, 2)
return cjson.decode(12)
return cjson.decode({})
return cjson.decode(nil)
return cmsgpack.pack()
return cmsgpack.unpack()
return cmsgpack.unpack(5)
return cmsgpack.unpack_one(nil)
return cmsgpack.unpack_one('\1', {})
return cmsgpack.unpack_limit('\1\2\3')
return cmsgpack.unpack_limit({}, 2)
return cmsgpack.unpack_limit('\1\2\3', 2^32+1, 2^32)
return cmsgpack.unpack('\1\2\3', 5, 6, 7)
return struct.pack()
return struct.pack('b')
return struct.pack('c5', 'abc')
return struct.unpack()
return struct.unpack('b')
return struct.size({})
return cjson.encode:new()
return cjson:encode()
return cjson:decode()
return cjson:encode_max_depth()
-- Depths, at which PUC's stack ends or a limit does.
local r = {} for _, n in ipairs({999, 1000, 1001}) do local t = {} for i = 2, n do t = {t} end r[n] = {pcall(cjson.encode, t)} end return r
local r, j = {}, cjson.new() j.encode_max_depth(9000) for _, n in ipairs({7997, 7998}) do local t = {} for i = 2, n do t = {t} end r[n] = {pcall(j.encode, t)} end return r
local r, j = {}, cjson.new() j.encode_max_depth(9000) for _, n in ipairs({3999, 4000}) do local t = {} for i = 2, n do t = {a = t} end r[n] = {pcall(j.encode, t)} end return r
local r, j = {}, cjson.new() j.encode_max_depth(9000) for _, n in ipairs({2665, 2666, 2667, 2668, 5331, 5332, 5333, 5334}) do local t = {} for i = 2, n do t = i % 2 == 0 and {a = t} or {t} end r[n] = {pcall(j.encode, t)} end return r
local r = {} for _, n in ipairs({1000, 1001}) do r[n] = {pcall(cjson.decode, string.rep('[', n)), pcall(cjson.decode, string.rep('{"a":', n))} end return r
local r, j = {}, cjson.new() j.decode_max_depth(9000) for _, n in ipairs({7998, 7999}) do r[n] = {pcall(j.decode, string.rep('[', n))} end return r
local r, j = {}, cjson.new() j.decode_max_depth(9000) for _, n in ipairs({3999, 4000}) do r[n] = {pcall(j.decode, string.rep('{"a":', n))} end return r
local r, j = {}, cjson.new() j.decode_max_depth(9000) for _, n in ipairs({2665, 2666, 2667, 2668}) do r[n] = {pcall(j.decode, string.rep('[{"a":', n))} end return r
local r = {} for _, n in ipairs({15, 16, 17, 20}) do local t = {} for i = 2, n do t = {t} end r[n] = cmsgpack.pack(t, {a = t}) end return r
local t = {} t[1] = t return cmsgpack.pack(t), pcall(cjson.encode, t)
local r = {} for _, n in ipairs({3999, 4000, 7999, 8000, 10000}) do r[n] = {pcall(cmsgpack.unpack, string.rep('\145', n))} end return r
local r = {} for _, n in ipairs({7998, 7999, 8000, 8001}) do r[n] = {pcall(cmsgpack.unpack, string.rep('\129', n))} end return r
local r = {} for _, n in ipairs({3998, 3999, 4000, 4001}) do r[n] = {pcall(cmsgpack.unpack, string.rep('\129\1', n))} end return r
local r = {} for _, n in ipairs({2666, 2667, 2668, 5332, 5333, 5334}) do r[n] = {pcall(cmsgpack.unpack, string.rep('\129\145', n))} end return r
local r = {} for _, n in ipairs({7998, 7999, 8000}) do r[n] = select('#', pcall(cmsgpack.unpack, string.rep('\1', n))) r[-n] = {pcall(cmsgpack.unpack_limit, string.rep('\1', n), 9000)} end return r
local r = {} for _, n in ipairs({7994, 7995, 7996, 7997, 7998, 7999}) do r[n] = select('#', pcall(struct.unpack, string.rep('b', n), string.rep('a', 9000))) r[-n] = select(2, pcall(struct.unpack, string.rep('b', n), string.rep('a', 9000))) end return r
local t = {} for i = 1, 7990 do t[i] = i end local r = {} for _, n in ipairs({3998, 3999, 4000, 4001}) do r[n] = {pcall(function() return #cmsgpack.pack(unpack(t, 1, n)) end)} end return r
-- Lengths.
local r = {} for _, n in ipairs({15, 16, 65535, 65536}) do local t = {} for i = 1, n do t[i] = 1 end r[n] = string.sub(cmsgpack.pack(t), 1, 7) end return r
local r = {} for _, n in ipairs({15, 16, 65535, 65536}) do local t = {} for i = 1, n do t['a' .. 100000 + i] = 1 end r[n] = string.sub(cmsgpack.pack(t), 1, 3) end return r
local r = {} for _, n in ipairs({31, 32, 255, 256, 65535, 65536}) do r[n] = string.sub(cmsgpack.pack(string.rep('x', n)), 1, 6) end return r
return cmsgpack.unpack('\221\255\255\255\255\7')
return cmsgpack.unpack('\223\255\255\255\255\161a\7')
return cmsgpack.unpack('\219\255\255\255\255a')
return cmsgpack.unpack('\129\192\1')
return cmsgpack.unpack('\129\203\255\248\0\0\0\0\0\0\1')
return cmsgpack.unpack('\130\1\192\2\2')
return struct.size('c2147483647c2147483647c2147483647'), struct.size('!'), struct.size('i3!4i3i3'), struct.size('!16i32b!32i32')
return struct.unpack('Bc0', '\2abc'), struct.unpack('sc0', '2\0abcd')
return struct.unpack('Bc0', '\5abc')
return struct.unpack('dc0', '\154\153\153\153\153\153\241\191abcdef')
return struct.unpack('c0', 'abc')
return struct.unpack('', 'abc', 5), struct.unpack('', 'abc', -1)
return struct.pack('b\0b', 1, 2)
-- Numbers.
return cjson.encode({0.1, 1/3, 1e15, 2^53, -0, 1e300, 5e-324, 123456789012345, 0.30000000000000004})
local j, r = cjson.new(), {} for p = 1, 14 do j.encode_number_precision(p) r[p] = j.encode({1/3, 2/3, 123456.789, 1e-5, 9.995}) end return r
return cjson.decode('[1e308, 1e309, -1e309, 5e-324, 1e-400, 0x10, 0x1p-1080, 0x1.fffffffffffff8p0, 0x123456789abcdef01]')
return cjson.decode('[nan, -nan, inf, -inf, infinity, -Infinity, nan(x_1)]')
return cjson.decode('"\\u0000\\u007f\\u0080\\u07ff\\u0800\\uffff\\ud800\\udc00\\udbff\\udfff"')
return pcall(cjson.decode, '\0\1'), pcall(cjson.decode, '1\0'), pcall(cjson.decode, '\0'), pcall(cjson.decode, '11\0x')
return cjson.encode({[2^53] = 1}), cjson.encode({[2^31] = 1}), pcall(cjson.encode, {[2^31 - 1] = 1})
-- What generated calls have found.
local z = 0 local t = {[-z] = 1} return next(t)
return pcall()
return pcall(error, {})
return pcall(error, {err = 5})
return pcall(error, {err = 'x'})
return pcall(error, {err = {}})
return string.gfind({})
return type(string.gfind('a', 'a'))
return string.format('a%-0 \0%20.99g', 1, 1e-7)
return string.format('%5c|', 0)
return string.format('%-5c|', 0)
return string.format('%c|', 2^32 + 65)
return string.format('%c%c|', -191, 65.9)
return string.find('\0 2\0,%', '\0+%bxx[^a-c]')
return string.find('a\0+b', '\0+')
return string.find('a', '\0[')
return math.fmod()
return math.pow('x', {})
return math.atan2({}, 'x')
math.randomseed(1) return math.random(-2^31, 2^31 - 1)
math.randomseed(1) return math.random(-2, 2^31 - 1)
return collectgarbage('a\203b')
return collectgarbage('a\0b')
return load(true, {})
return loadstring(1e39, ('x'):rep(100))
return loadstring('x', '@' .. ('x'):rep(100))
return loadstring('error()', ('x'):rep(100))
return loadstring('# x')
return loadstring('return [=[a\\0b]] \'\\65\\0\']=] \'\\65\\066c\'')
return loadstring('x \'\\65\\066c\'')
return loadstring('x \'a\\0b\'')
return loadstring('x [==[\na]]b]==]')
return loadstring('return [[a [[ b]]')
return coroutine.create(function() end) < 'x'
return coroutine.create(function() end) <= 'x'
return 'x' < {}
return setmetatable({}, {__newindex = function() end})[nil]
setmetatable({}, {__newindex = function() end})[nil] = 1
setmetatable({}, {__newindex = function() end})[0/0] = 1
local t = {} t['a\0b']()
local k, l = 'a', 2 return cjson.encode({[k] = 1, [l] = {[k] = {}}})
return pcall(assert, false, 'a\0b')
