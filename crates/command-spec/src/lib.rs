//! What a command is: name, id, arity, keys, flags, categories, documentation. No handlers.
