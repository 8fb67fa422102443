//! Printing modules: their items, data types, and the attributes that the DSL's macros accept.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};

use super::Printer;
use super::names::identifier;
use super::stmt::attr;
use crate::ir::{Attrs, BaseFunc, IRModule, Type, TypeDef, Var};
use crate::script::graph::ops;

/// The module that is printed, and the identifiers chosen for the names of its functions.
#[derive(Debug, Default)]
pub(super) struct Context {
    pub(super) module: IRModule,
    names: IndexMap<Arc<str>, String>,
}

impl Context {
    pub(super) fn new(module: &IRModule) -> Context {
        let mut taken: IndexSet<String> = ops::NAMES.iter().map(ToString::to_string).collect();
        let mut names = IndexMap::new();
        for (gv, _) in module.functions() {
            let base = identifier(gv.name());
            let mut candidates = std::iter::once(base.clone()).chain((1..).map(|i| format!("{base}_{i}")));
            let name = candidates.find(|name| !taken.contains(name)).unwrap_or(base);
            taken.insert(name.clone());
            names.insert(gv.name().into(), name);
        }
        Context { module: module.clone(), names }
    }

    /// The identifier of the function `name`.
    pub(super) fn identifier(&self, name: &str) -> String {
        self.names.get(name).cloned().unwrap_or_else(|| identifier(name))
    }

    /// The identifiers of all functions.
    pub(super) fn identifiers(&self) -> impl Iterator<Item = &str> {
        self.names.values().map(String::as_str)
    }
}

impl Printer {
    /// `#[path(args)]`
    pub(super) fn attribute(&mut self, path: &str, args: impl IntoIterator<Item = Option<String>>) {
        let args: Vec<String> = args.into_iter().flatten().collect();
        let args = if args.is_empty() { String::new() } else { format!("({})", args.join(", ")) };
        self.line(format!("#[{path}{args}]"));
    }

    /// `name = "a.b"`, if the identifier of the function differs from its name.
    pub(super) fn name_arg(&self, name: &str) -> Option<String> {
        (self.context.identifier(name) != name).then(|| format!("name = {name:?}"))
    }

    /// `dims(n = 1..=64)`: the bounds of those of the variables that have bounds.
    pub(super) fn dims_arg<'a>(&mut self, dims: impl IntoIterator<Item = &'a Var>) -> Option<String> {
        let bounds = dims.into_iter().filter_map(|dim| Some(dim.bound()?.source(&self.names.var(dim))));
        let bounds: Vec<String> = bounds.collect();
        (!bounds.is_empty()).then(|| format!("dims({})", bounds.join(", ")))
    }

    /// The items of a module, each printed with its own scope of names.
    pub(super) fn items(module: &IRModule, whole: bool) -> Vec<String> {
        let context = Arc::new(Context::new(module));
        let item = |body: &dyn Fn(&mut Printer)| {
            let mut printer = Printer { context: context.clone(), whole, ..Printer::default() };
            body(&mut printer);
            printer.out
        };
        let types = module.type_defs().map(|def| item(&|p| p.type_def(def)));
        let functions = module.functions().map(|(gv, func)| {
            item(&|p| match func {
                BaseFunc::Prim(func) => p.prim_func(gv.name(), func),
                BaseFunc::Relax(func) => p.function(gv.name(), func),
                BaseFunc::Extern(func) => p.unsayable(&format!("{} = {func}", gv.name())),
            })
        });
        types.chain(functions).collect()
    }

    fn type_def(&mut self, def: &TypeDef) {
        let params: Vec<&str> = def.params.iter().map(|param| &*param.0).collect();
        let params = if params.is_empty() { String::new() } else { format!("<{}>", params.join(", ")) };
        self.line("#[relay::adt]");
        self.braces(&format!("enum {}{params}", def.name), "", |p| {
            for constructor in def.constructors.iter() {
                let fields: Vec<String> = constructor
                    .fields
                    .iter()
                    .map(|field| {
                        let text = p.ty(field);
                        let recursive = matches!(field, Type::Adt(it) if it.name == def.name);
                        if recursive { format!("Box<{text}>") } else { text }
                    })
                    .collect();
                let fields =
                    if fields.is_empty() { String::new() } else { format!("({})", fields.join(", ")) };
                p.line(format!("{}{fields},", constructor.name));
            }
        });
    }
}

/// `attrs(key = value, "dotted.key" = value)`
pub(super) fn attrs_arg(attrs: &Attrs) -> Option<String> {
    let entry = |(name, value)| {
        let key = if identifier(name) == name { name.to_string() } else { format!("{name:?}") };
        format!("{key} = {}", attr(value))
    };
    let entries: Vec<String> = attrs.iter().map(entry).collect();
    (!entries.is_empty()).then(|| format!("attrs({})", entries.join(", ")))
}
