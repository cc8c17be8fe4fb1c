//! The machines that run scripts: a worker has one for scripts, and one for functions of libraries that keep nothing.

use almandine_io::entropy;
use almandine_script::{Engine, EngineOptions, Function, Program};

use crate::run::runner::Runner;

impl Runner {
    /// Keeps the machine for the next run.
    pub(crate) fn keep_engine(&mut self, mut engine: Box<Engine>, program: &Program) {
        let machines = &self.context.instance.scripts.machines;
        engine.note_memory(machines);
        let replaced = match program {
            _ if engine.of_libraries.is_some() => self.function_engine.replace(engine),
            Program::Script(_) => self.engine.replace(engine),
            Program::Function(_) => {
                self.context.instance.scripts.libraries.give_engine(engine);
                None
            }
        };
        // The one that scripts had meanwhile.
        if let Some(replaced) = replaced {
            replaced.retire(machines);
        }
    }

    /// The worker's machine that runs a script or function; nothing for one that needs the machine of all workers.
    pub(super) fn take_engine(&mut self, program: &Program) -> Option<Box<Engine>> {
        match program {
            Program::Script(_) => {
                let deprecated = self.context.settings().security.lua_deprecated_api;
                Some(self.engine.take().unwrap_or_else(|| self.new_engine(deprecated)))
            }
            Program::Function(function) if function.keeps_nothing && self.has_brought(function) => self.function_engine.take(),
            Program::Function(_) => None,
        }
    }

    /// Makes the worker's own machine for functions have one; false when that is not possible.
    fn has_brought(&mut self, function: &Function) -> bool {
        let scripts = &self.context.instance.scripts;
        let generation = scripts.libraries.generation();
        if let Some(old) = self.function_engine.take_if(|engine| engine.of_libraries != Some(generation)) {
            // With the code of libraries that are gone.
            old.retire(&scripts.machines);
        }
        let mut engine = self.function_engine.take().unwrap_or_else(|| self.new_engine(false));
        engine.of_libraries = Some(generation);
        let has_brought = engine.bring(function);
        self.function_engine = Some(engine);
        has_brought
    }

    #[cold]
    fn new_engine(&self, deprecated: bool) -> Box<Engine> {
        let settings = self.context.settings();
        Box::new(Engine::new(EngineOptions {
            seed: entropy::seed(),
            memory_limit: usize::try_from(settings.process.script_memory_limit_bytes).unwrap_or(usize::MAX),
            deprecated,
        }))
    }
}
