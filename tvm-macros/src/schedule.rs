//! `#[schedule(kernel)]`: a checked Rust function that transforms a kernel, and a test that it preserves the results.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{FnArg, ItemFn, Path, ReturnType, Type};

use crate::error::Errors;
use crate::paths;

const HELP: &str = "write `#[schedule(kernel)] fn name(s: &mut Schedule) -> Result<(), ScheduleError>`";

/// The expansion of `item` with the arguments `attr` of the attribute.
pub(crate) fn expand(attr: TokenStream, item: TokenStream) -> TokenStream {
    let Ok(func) = syn::parse2::<ItemFn>(item.clone()) else {
        return item;
    };
    let mut errors = Errors::default();
    check_signature(&func, &mut errors);
    match syn::parse2::<Path>(attr.clone()) {
        Ok(kernel) if errors.is_empty() => {
            let wrapper = wrapper(&func, &kernel);
            quote!(#func #wrapper)
        }
        Ok(_) => {
            let errors = errors.to_tokens();
            quote!(#func #errors)
        }
        Err(_) => {
            let message = "`schedule` names the kernel that it schedules";
            if attr.is_empty() {
                errors.push(&func.sig.ident, message, HELP);
            } else {
                errors.push(&attr, message, HELP);
            }
            let errors = errors.to_tokens();
            quote!(#func #errors)
        }
    }
}

fn check_signature(func: &ItemFn, errors: &mut Errors) {
    let sig = &func.sig;
    let takes_schedule = match sig.inputs.first() {
        Some(FnArg::Typed(it)) if sig.inputs.len() == 1 => {
            matches!(&*it.ty, Type::Reference(it) if it.mutability.is_some())
        }
        _ => false,
    };
    if !takes_schedule {
        let inputs = &sig.inputs;
        let message = "a schedule takes one `&mut Schedule`";
        if inputs.is_empty() {
            errors.push(&sig.ident, message, HELP);
        } else {
            errors.push(inputs, message, HELP);
        }
    }
    if matches!(sig.output, ReturnType::Default) {
        errors.push(&sig.ident, "a schedule returns a result", HELP);
    }
    if !sig.generics.params.is_empty() {
        let generics = &sig.generics;
        let help = "name the instance in the attribute: `#[schedule(kernel::<f32>)]`";
        errors.push(generics, "a schedule is not generic", help);
    }
}

/// The type named like the schedule, and the test.
fn wrapper(func: &ItemFn, kernel: &Path) -> TokenStream {
    let span = Span::call_site();
    let (private, script, ir) = (paths::private(span), paths::script(span), paths::ir(span));
    let (tir, runtime) = (paths::tir(span), paths::runtime(span));
    let (name, vis) = (&func.sig.ident, &func.vis);
    let text = kernel.to_token_stream().to_string().replace(' ', "");
    let doc = format!("The kernel `{text}` as [`{name}()`](fn@{name}) schedules it.");
    let base: String = text.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    let test = format_ident!("{name}_computes_what_{}_does", base.trim_matches('_'));
    quote! {
        #[doc = #doc]
        #[allow(non_camel_case_types, dead_code, reason = "named like the schedule")]
        #vis struct #name {}

        #[allow(dead_code, reason = "not every schedule is used in every way")]
        impl #name {
            /// Schedules `func`, which has the blocks of the kernel.
            #vis fn apply(
                func: #tir::PrimFunc,
            ) -> ::core::result::Result<#tir::PrimFunc, #tir::schedule::ScheduleError> {
                let mut __schedule = #tir::schedule::Schedule::new(func)?;
                #name(&mut __schedule)?;
                ::core::result::Result::Ok(__schedule.into_func())
            }

            /// Builds the kernel and schedules it.
            #vis fn prim_func() -> ::core::result::Result<#tir::PrimFunc, #ir::IrError> {
                <Self as #script::PrimFuncDef>::prim_func()
            }

            /// A module of this one program.
            #vis fn module() -> ::core::result::Result<#ir::IRModule, #ir::IrError> {
                <Self as #script::PrimFuncDef>::module()
            }

            /// Compiles the scheduled kernel for `target`.
            #vis fn compile(target: &#private::Target) -> ::core::result::Result<
                #runtime::CompiledFn<<#kernel as #script::PrimFuncDef>::Args>,
                #private::CompileError,
            > {
                #private::compile::<Self>(target)
            }
        }

        #[automatically_derived]
        impl #script::PrimFuncDef for #name {
            type Args = <#kernel as #script::PrimFuncDef>::Args;
            const IS_KERNEL: bool = false;
            const SIG: #script::FuncSig = <#kernel as #script::PrimFuncDef>::SIG;
            fn prim_func() -> ::core::result::Result<#tir::PrimFunc, #ir::IrError> {
                let func = <#kernel as #script::PrimFuncDef>::prim_func()?;
                #name::apply(func).map_err(|error| #ir::IrError::new(error.to_string(), &#ir::Span::none()))
            }
        }

        #[cfg(test)]
        #[test]
        #[allow(unnameable_test_items, reason = "a schedule inside of a function is tested where it is used")]
        fn #test() {
            let __checked = #script::check_schedule::<#kernel>(#name::apply);
            ::core::assert!(__checked.is_ok(), "{}", __checked.unwrap_err());
        }
    }
}
