-- Builds what scripts see out of Lua's own library and of `native`, which is Rust's. Runs once per sandbox, before any script.
local native, globals = ...

local error, getmetatable, loadstring, pcall, rawset, select, setmetatable, tostring, type, xpcall =
    error, getmetatable, loadstring, pcall, rawset, select, setmetatable, tostring, type, xpcall
local create, resume, yield, unpack = coroutine.create, coroutine.resume, coroutine.yield, unpack
local sort, insert, concat = table.sort, table.insert, table.concat
local READ_ONLY = "Attempt to modify a readonly table"

-- Tables that every script shares are seen through an empty one, and cannot be written to.
local sealed = setmetatable({}, { __mode = "k" })
local function refuse()
    error(READ_ONLY, 2)
end
local function seal(content, index)
    local face = setmetatable({}, { __index = index or content, __newindex = refuse, __metatable = false })
    sealed[face] = true
    return face
end

local function raise(words)
    native.raise("ERR " .. words)
end

-- What ends the whole script (a limit, a row that must be read first) is not to be caught.
local function settle(is_done, ...)
    if is_done then
        return true, ...
    end
    local failure = ...
    if native.is_final(failure) then
        error(failure, 0)
    end
    return false, native.translate(failure)
end
local function settle_text(is_done, ...)
    if is_done then
        return true, ...
    end
    local _, failure = settle(false, ...)
    if type(failure) == "table" and type(failure.err) == "string" then
        failure = failure.err
    end
    return false, failure
end

for _, name in ipairs({ "assert", "error", "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget", "select", "tonumber",
    "tostring", "type", "unpack", "_VERSION" }) do
    globals[name] = _G[name]
end
-- Lua's own `pcall`, `xpcall` and `resume` put a boolean beside whatever came back, and do not ask whether the stack has room for it. So
-- what comes back is one value for them, and several again here.
local function keep(...)
    return { n = select("#", ...), ... }
end
local function apply(...)
    return keep((...)(select(2, ...)))
end
local function kept_or(settled, is_done, kept)
    if is_done then
        return true, unpack(kept, 1, kept.n)
    end
    return settled(false, kept)
end

-- What is not written in Lua, and gives few values: `pcall` calls it by itself, for its failures name the place that it was called from.
local short = {}
local function note(library)
    for _, member in pairs(library) do
        if type(member) == "function" then
            short[member] = true
        end
    end
end
for _, libraries in ipairs({ _G, native }) do
    note(libraries)
    for _, library in pairs(libraries) do
        if type(library) == "table" then
            note(library)
        end
    end
end
for _, long in pairs({ unpack, string.byte, native.find, native.match, native.struct.unpack, native.cmsgpack.unpack }) do
    short[long] = nil
end

globals.pcall = function(...)
    -- What cannot be called fails in Lua's own words.
    if type((...)) ~= "function" or short[(...)] then
        return settle_text(pcall(...))
    end
    return kept_or(settle_text, pcall(apply, ...))
end
globals.xpcall = function(act, handler)
    local function run()
        return keep(act())
    end
    return kept_or(settle, xpcall(type(act) == "function" and run or act, function(failure)
        if native.is_final(failure) then
            return failure
        end
        return handler(native.translate(failure))
    end))
end
globals.rawset = function(target, key, value)
    if sealed[target] then
        raise(READ_ONLY)
    end
    return rawset(target, key, value)
end
globals.setmetatable = function(target, meta)
    if sealed[target] then
        raise(READ_ONLY)
    end
    return setmetatable(target, meta)
end
-- Only text: what is compiled already could do anything to the memory of the process.
globals.loadstring = function(text, name)
    if type(text) == "string" and text:byte() == 27 then
        return nil, "attempt to load a precompiled chunk"
    end
    native.charge(#text)
    return loadstring(text, name)
end
globals.load = function(part, name)
    local parts = {}
    while true do
        local text = part()
        if text == nil or text == "" then
            return globals.loadstring(concat(parts), name or "=(load)")
        end
        parts[#parts + 1] = text
    end
end
globals.collectgarbage = function(what)
    return what == "count" and gcinfo() or 0
end
globals.gcinfo = gcinfo

local function copy(library)
    local content = {}
    for name, member in pairs(library) do
        content[name] = member
    end
    return content
end

-- The string library of values (`("a"):rep(3)`) is that of the name.
for _, name in ipairs({ "find", "match", "gmatch", "gsub", "rep" }) do
    string[name] = native[name]
end
string.gmatch = function(subject, pattern)
    local at = 1
    return function()
        return (function(next_at, ...)
            at = next_at
            return ...
        end)(native.gmatch(subject, pattern, at))
    end
end
string.gfind = string.gmatch
-- What takes the place of a match is found here, for it may be a function of the script's.
string.gsub = function(subject, pattern, put, most)
    local kind = type(put)
    if kind ~= "string" and kind ~= "number" and kind ~= "table" and kind ~= "function" then
        error("bad argument #3 to 'gsub' (string/function/table expected)", 2)
    end
    if kind == "string" or kind == "number" then
        return native.gsub(subject, pattern, tostring(put), most)
    end
    local count, matches = native.gsub_matches(subject, pattern, most)
    local parts, place = {}, 1
    for index = 1, count do
        local found = matches[index]
        local value
        if kind == "table" then
            value = put[found[1]]
        else
            value = put(unpack(found, 1, found.n))
        end
        if not value then
            value = found.whole
        elseif type(value) ~= "string" and type(value) ~= "number" then
            error("invalid replacement value (a " .. type(value) .. ")", 2)
        end
        parts[#parts + 1] = found.before
        parts[#parts + 1] = value
    end
    parts[#parts + 1] = matches.rest
    return concat(parts), count
end
string.dump = nil
getmetatable("").__metatable = false
globals.string = seal(string)

local tables = copy(table)
tables.sort = function(target, before)
    native.charge(type(target) == "table" and #target * 8 or 0)
    return sort(target, before)
end
tables.insert = function(target, ...)
    if select("#", ...) == 2 then
        local place = ...
        -- Lua would walk from the end to any place, however far it is away.
        if type(place) == "number" and type(target) == "table" then
            if place < 1 then
                native.charge(1 - place)
            end
            native.charge(#target / 8)
        end
    end
    return insert(target, ...)
end
tables.concat = function(target, ...)
    native.charge(type(target) == "table" and #target or 0)
    return concat(target, ...)
end
globals.table = seal(tables)

local maths = copy(math)
maths.random, maths.randomseed = native.random, native.random_seed
globals.math = seal(maths)

local coroutines = copy(coroutine)
coroutines.create = function(act)
    -- Refuses what is no function of Lua's.
    create(act)
    return create(function(...)
        return keep(act(...))
    end)
end
coroutines.yield = function(...)
    return yield(keep(...))
end
coroutines.resume = function(...)
    return kept_or(settle, resume(...))
end
coroutines.wrap = function(act)
    local thread = coroutines.create(act)
    return function(...)
        local is_done, kept = resume(thread, ...)
        if is_done then
            return unpack(kept, 1, kept.n)
        end
        error(kept, 0)
    end
end
globals.coroutine = seal(coroutines)

local redis = {
    LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
    REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
    REDIS_VERSION = native.version, REDIS_VERSION_NUM = native.version_number,
}
redis.call, redis.pcall, redis.error_reply = native.redis_call, native.redis_pcall, native.error_reply
redis.status_reply = function(...)
    if select("#", ...) ~= 1 or type((...)) ~= "string" then
        return { err = "ERR wrong number or type of arguments" }
    end
    return { ok = (...) }
end
redis.sha1hex, redis.log, redis.setresp, redis.acl_check_cmd =
    native.sha1hex, native.redis_log, native.setresp, native.acl_check_cmd
-- Effects are all that is ever replicated, and there is no debugger.
redis.replicate_commands = function()
    return true
end
redis.set_repl = function() end
redis.breakpoint = function()
    return false
end
redis.debug = function() end
redis.register_function = native.register_function
globals.redis = seal(redis)

for _, library in ipairs({ "cjson", "cmsgpack", "bit", "struct" }) do
    local content = {}
    for name, member in pairs(native[library]) do
        content[name] = member
    end
    if library == "cjson" then
        content.new = function()
            return content
        end
    end
    globals[library] = seal(content)
end

local function nonexistent(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end
setmetatable(globals, { __index = nonexistent })
local world = seal(globals)
rawset(globals, "_G", world)

-- Says where in the script a failure came up, as Redis does.
local function handler(failure)
    if native.is_final(failure) then
        return failure
    end
    failure = native.translate(failure)
    if type(failure) ~= "table" then
        failure = { err = "ERR " .. tostring(failure) }
    end
    failure.line = native.line() or failure.line
    return failure
end
-- One value alone: Lua's `xpcall` has no room to put its own before very many.
local function execute(act)
    return xpcall(function()
        local value = act()
        return value
    end, handler)
end
-- A function of a library, with what it is called with.
local function bind(act, keys, args)
    return function()
        return act(keys, args)
    end
end
return world, execute, bind
