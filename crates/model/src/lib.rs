//! Words shared by all rooms: ids, values, tables, keys, positions, commands, errors, limits. Pure.
