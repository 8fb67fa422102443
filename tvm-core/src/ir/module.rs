//! A module: functions by global name, type definitions, attributes.
//!
//! TVM counterpart: `IRModule`.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxHashMap;

use super::graph::Function;
use super::tensor_program::PrimFunc;
use super::{Attrs, GlobalVar, TypeDef};

/// A function of a module.
#[derive(Clone, Debug)]
pub enum BaseFunc {
    /// A tensor program.
    Prim(Arc<PrimFunc>),
    /// A graph function.
    Relax(Arc<Function>),
    /// A function defined outside the module, called by symbol.
    Extern(Arc<ExternFunc>),
}

/// A function defined outside the module: a C symbol or a registered packed function.
#[derive(Clone, Debug)]
pub struct ExternFunc {
    /// Symbol or registered name.
    pub symbol: Arc<str>,
    /// Attributes.
    pub attrs: Attrs,
}

/// Functions, type definitions and attributes, in insertion order, which is also the order of all output.
#[derive(Clone, Debug, Default)]
pub struct IRModule {
    functions: IndexMap<GlobalVar, BaseFunc>,
    /// Global variables by name; those of the same name in insertion order.
    names: FxHashMap<Arc<str>, Vec<GlobalVar>>,
    /// By name hint, the last number appended to make a name unique.
    suffixes: FxHashMap<Arc<str>, usize>,
    types: IndexMap<Arc<str>, Arc<TypeDef>>,
    /// Attributes of the module.
    pub attrs: Attrs,
}

impl IRModule {
    /// An empty module.
    pub fn new() -> IRModule {
        IRModule::default()
    }

    /// A module with one tensor program, under the program's own name.
    pub fn from_prim_func(func: PrimFunc) -> IRModule {
        let mut module = IRModule::new();
        module.add(func.name.clone(), BaseFunc::Prim(Arc::new(func)));
        module
    }

    /// Adds `func` under a name made unique from `hint`.
    pub fn add(&mut self, hint: impl Into<Arc<str>>, func: BaseFunc) -> GlobalVar {
        let gv = GlobalVar::new(self.unique_name(hint.into()));
        self.update(gv.clone(), func);
        gv
    }

    /// Sets the function of `gv`; adds `gv` if the module does not have it.
    pub fn update(&mut self, gv: GlobalVar, func: BaseFunc) {
        if self.functions.insert(gv.clone(), func).is_none() {
            self.names.entry(gv.name().into()).or_default().push(gv);
        }
    }

    /// Removes the function of `gv`; the others keep their order.
    pub fn remove(&mut self, gv: &GlobalVar) -> Option<BaseFunc> {
        let func = self.functions.shift_remove(gv)?;
        self.forget(gv);
        Some(func)
    }

    /// Removes the functions for which `keep` returns false; the others keep their order.
    pub fn retain(&mut self, mut keep: impl FnMut(&GlobalVar, &BaseFunc) -> bool) {
        let mut removed = Vec::new();
        self.functions.retain(|gv, func| {
            let keeps = keep(gv, func);
            if !keeps {
                removed.push(gv.clone());
            }
            keeps
        });
        removed.iter().for_each(|gv| self.forget(gv));
    }

    /// Frees the name of a removed function.
    fn forget(&mut self, gv: &GlobalVar) {
        if let Some(same) = self.names.get_mut(gv.name()) {
            same.retain(|it| it != gv);
            if same.is_empty() {
                self.names.remove(gv.name());
            }
        }
    }

    /// The function of `gv`.
    pub fn get(&self, gv: &GlobalVar) -> Option<&BaseFunc> {
        self.functions.get(gv)
    }

    /// The global variable named `name`.
    pub fn global_var(&self, name: &str) -> Option<&GlobalVar> {
        self.names.get(name)?.first()
    }

    /// The function named `name`.
    pub fn lookup(&self, name: &str) -> Option<&BaseFunc> {
        self.get(self.global_var(name)?)
    }

    /// The tensor program of `gv`, if it is one.
    pub fn prim_func(&self, gv: &GlobalVar) -> Option<&Arc<PrimFunc>> {
        if let BaseFunc::Prim(func) = self.get(gv)? { Some(func) } else { None }
    }

    /// The graph function of `gv`, if it is one.
    pub fn relax_func(&self, gv: &GlobalVar) -> Option<&Arc<Function>> {
        if let BaseFunc::Relax(func) = self.get(gv)? { Some(func) } else { None }
    }

    /// All functions in order.
    pub fn functions(&self) -> impl Iterator<Item = (&GlobalVar, &BaseFunc)> {
        self.functions.iter()
    }

    /// Number of functions.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// True when there is no function.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Adds or replaces a type definition.
    pub fn add_type(&mut self, def: Arc<TypeDef>) {
        self.types.insert(def.name.clone(), def);
    }

    /// The type definition named `name`.
    pub fn type_def(&self, name: &str) -> Option<&Arc<TypeDef>> {
        self.types.get(name)
    }

    /// All type definitions in order.
    pub fn type_defs(&self) -> impl Iterator<Item = &Arc<TypeDef>> {
        self.types.values()
    }

    fn unique_name(&mut self, hint: Arc<str>) -> Arc<str> {
        if self.global_var(&hint).is_none() {
            return hint;
        }
        let last = self.suffixes.get(&hint).copied().unwrap_or(0);
        let mut numbered = (last + 1..).map(|i| (i, Arc::from(format!("{hint}_{i}"))));
        let free = numbered.find(|(_, name): &(usize, Arc<str>)| self.global_var(name).is_none());
        let Some((number, name)) = free else { return hint };
        self.suffixes.insert(hint, number);
        name
    }
}
