//! Finds what can be broken in a source file. Macros are not looked into: their arguments are no syntax tree.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Expr, Stmt, UnOp};

use crate::cfg::{file_of, is_compiled};
use crate::mutant::{Kind, Mutant};

/// A file's mutants, and the files of the modules that it declares, without `.rs`.
#[derive(Default)]
pub struct Found {
    pub mutants: Vec<Mutant>,
    pub modules: Vec<String>,
}

/// Finds the mutants in `text`. Panics if it cannot be parsed.
pub fn find(file: &str, text: &str) -> Found {
    let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let found = Found::default();
    let mut finder = Finder { file, text, within: Vec::new(), method: String::new(), found };
    finder.visit_file(&parsed);
    finder.found
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    /// Modules, types and functions around the place.
    within: Vec<String>,
    /// The method whose arguments are visited.
    method: String,
    found: Found,
}

impl Finder<'_> {
    fn add(&mut self, kind: Kind, at: Range<usize>, change: &str, before: &str, after: &str) {
        let place = format!("{} {} {} {change}", self.file, self.within.join("::"), kind.name());
        let is_same = |mutant: &&Mutant| mutant.id.split(" #").next() == Some(&place);
        let earlier = self.found.mutants.iter().filter(is_same).count();
        self.found.mutants.push(Mutant {
            id: if earlier == 0 { place } else { format!("{place} #{}", earlier + 1) },
            file: self.file.to_string(),
            kind,
            line: self.text[..at.start].matches('\n').count() + 1,
            at,
            before: before.to_string(),
            after: after.to_string(),
        });
    }

    /// Visits what has these attributes, if it is compiled, as a part of `name`.
    fn inside(&mut self, name: Option<String>, attributes: &[Attribute], visit: impl FnOnce(&mut Self)) {
        if is_compiled(attributes) {
            self.within.extend(name.clone());
            visit(self);
            self.within.truncate(self.within.len() - usize::from(name.is_some()));
        }
    }

    /// The code of the line on which `range` begins.
    fn line_of(&self, range: &Range<usize>) -> String {
        let start = self.text[..range.start].rfind('\n').map_or(0, |end| end + 1);
        let line = self.text[start..].lines().next().unwrap_or_default();
        line.split("//").next().unwrap_or_default().trim().to_string()
    }

    fn source(&self, range: Range<usize>) -> &str {
        &self.text[range]
    }

    /// Adds the mutants of a condition: each of its operands is flipped.
    fn condition(&mut self, condition: &Expr) {
        match condition {
            Expr::Binary(both) if matches!(both.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.condition(&both.left);
                self.condition(&both.right);
            }
            Expr::Paren(inner) => self.condition(&inner.expr),
            Expr::Unary(not) if matches!(not.op, UnOp::Not(_)) => self.condition(&not.expr),
            Expr::Let(binding) => self.visit_expr(&binding.expr),
            _ => {
                self.flip(condition);
                self.operands(condition);
            }
        }
    }

    /// Visits the parts of an operand that was flipped.
    fn operands(&mut self, operand: &Expr) {
        match operand {
            Expr::Binary(both) => {
                self.visit_expr(&both.left);
                self.visit_expr(&both.right);
            }
            _ => self.visit_expr(operand),
        }
    }

    fn flip(&mut self, operand: &Expr) {
        let range = operand.span().byte_range();
        let source = self.source(range.clone());
        if is_constant(source) {
            return;
        }
        let change = format!("flips `{}`", one_line(source));
        self.add(Kind::Condition, range, &change, "((", ") != {active})");
    }

    fn ordering(&mut self, path: &syn::ExprPath) {
        let names: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let [.., parent, name] = names.as_slice() else { return };
        if parent != "Ordering" {
            return;
        }
        let weaker: &[&str] = match (name.as_str(), self.method.as_str()) {
            ("Acquire" | "Release", _) => &["Relaxed"],
            ("AcqRel", _) => &["Acquire", "Release"],
            ("SeqCst", "load" | "peek") => &["Acquire"],
            ("SeqCst", "store") => &["Release"],
            ("SeqCst", "compiler_fence") => return,
            ("SeqCst", _) => &["AcqRel"],
            _ => return,
        };
        let range = path.span().byte_range();
        let prefix = self.source(range.clone()).trim_end_matches(name.as_str()).to_string();
        for weak in weaker {
            let (before, after) = ("crate::mutation::order({number}, ", format!(", {prefix}{weak})"));
            let change = format!("{name} to {weak} in `{}`", self.line_of(&range));
            self.add(Kind::Ordering, range.clone(), &change, before, &after);
        }
    }

    /// Adds a mutant without the fence, if the call is one.
    fn fence(&mut self, call: &syn::ExprCall) {
        let Expr::Path(function) = &*call.func else { return };
        let name = function.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        let range = call.span().byte_range();
        let change = format!("drops `{}`", one_line(self.source(range.clone())));
        if let "fence" | "compiler_fence" | "light_barrier" | "heavy_barrier" | "wait_barrier" | "wake_barrier" =
            name.as_str()
        {
            self.add(Kind::Fence, range, &change, "(if !{active} { ", " })");
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let name = module.ident.to_string();
        if module.content.is_none() {
            if is_compiled(&module.attrs) {
                self.found.modules.push(file_of(&module.attrs).unwrap_or(name));
            }
            return;
        }
        self.inside(Some(name), &module.attrs, |this| visit::visit_item_mod(this, module));
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let name = self.source(block.self_ty.span().byte_range()).to_string();
        let name = name.split('<').next().unwrap_or_default().trim_start_matches('&').trim().to_string();
        self.inside(Some(name), &block.attrs, |this| visit::visit_item_impl(this, block));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.inside(Some(item.ident.to_string()), &item.attrs, |this| visit::visit_item_trait(this, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        // What is evaluated when the engine is compiled cannot be switched when it runs.
        if item.sig.constness.is_none() {
            self.inside(Some(item.sig.ident.to_string()), &item.attrs, |this| visit::visit_item_fn(this, item));
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if item.sig.constness.is_none() {
            self.inside(Some(item.sig.ident.to_string()), &item.attrs, |this| visit::visit_impl_item_fn(this, item));
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if item.sig.constness.is_none() {
            self.inside(Some(item.sig.ident.to_string()), &item.attrs, |this| visit::visit_trait_item_fn(this, item));
        }
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_local(&mut self, local: &'ast syn::Local) {
        self.inside(None, &local.attrs, |this| visit::visit_local(this, local));
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.inside(None, &arm.attrs, |this| {
            if let Some((_, guard)) = &arm.guard {
                this.condition(guard);
            }
            this.visit_expr(&arm.body);
        });
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        let attributes = attributes(expr);
        self.inside(None, attributes, |this| match expr {
            Expr::If(item) => this.if_expr(item),
            Expr::While(item) => {
                this.condition(&item.cond);
                this.visit_block(&item.body);
            }
            Expr::Binary(both) if is_comparison(&both.op) || matches!(both.op, BinOp::And(_) | BinOp::Or(_)) => {
                this.condition(expr);
            }
            Expr::Path(path) => this.ordering(path),
            Expr::Call(call) => {
                this.fence(call);
                this.arguments(last_name(&call.func), |this| visit::visit_expr_call(this, call));
            }
            Expr::MethodCall(call) => {
                this.visit_expr(&call.receiver);
                this.arguments(call.method.to_string(), |this| call.args.iter().for_each(|a| this.visit_expr(a)));
            }
            _ => visit::visit_expr(this, expr),
        });
    }
}

impl Finder<'_> {
    fn arguments(&mut self, method: String, visit: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.method, method);
        visit(self);
        self.method = outer;
    }

    fn if_expr(&mut self, item: &syn::ExprIf) {
        let range = item.cond.span().byte_range();
        let source = self.source(range.clone());
        let is_let_chain = has_let(&item.cond);
        if item.else_branch.is_none() && leaves(&item.then_branch) && !is_constant(source) {
            let change = format!("never leaves for `{}`", one_line(source));
            let (before, after) = if is_let_chain { ("", " && !{active}") } else { ("(", ") && !{active}") };
            self.add(Kind::Recheck, range, &change, before, after);
        }
        self.condition(&item.cond);
        self.visit_block(&item.then_branch);
        if let Some((_, other)) = &item.else_branch {
            self.visit_expr(other);
        }
    }
}

/// Whether a condition is decided when the engine is compiled.
fn is_constant(source: &str) -> bool {
    source == "MODEL"
        || source.ends_with("::MODEL")
        || source.starts_with("cfg!")
        || ["true", "false"].contains(&source)
}

fn is_comparison(op: &BinOp) -> bool {
    matches!(op, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_))
}

fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

/// Whether a block ends by leaving the function or a loop.
fn leaves(block: &syn::Block) -> bool {
    matches!(block.stmts.last(), Some(Stmt::Expr(Expr::Return(_) | Expr::Break(_) | Expr::Continue(_), _)))
}

fn last_name(function: &Expr) -> String {
    match function {
        Expr::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default(),
        _ => String::new(),
    }
}

fn attributes(expr: &Expr) -> &[Attribute] {
    match expr {
        Expr::Block(e) => &e.attrs,
        Expr::Return(e) => &e.attrs,
        Expr::If(e) => &e.attrs,
        Expr::Call(e) => &e.attrs,
        Expr::MethodCall(e) => &e.attrs,
        Expr::Unsafe(e) => &e.attrs,
        Expr::Assign(e) => &e.attrs,
        Expr::Match(e) => &e.attrs,
        Expr::ForLoop(e) => &e.attrs,
        _ => &[],
    }
}

fn one_line(source: &str) -> String {
    source.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mutants in a function with this body: what each does to it, without the file and the function.
    fn changes(body: &str) -> Vec<String> {
        let found = find("it.rs", &format!("impl<T> It<T> {{ fn f() {{ {body} }} }}"));
        let changes = found.mutants.iter().map(|mutant| mutant.id.strip_prefix("it.rs It::f ").expect("its place"));
        changes.map(str::to_string).collect()
    }

    #[test]
    fn orderings_become_the_next_weaker_ones() {
        let weaker = |code: &str| {
            let all = changes(code).into_iter().map(|id| id.split(" in ").next().unwrap_or_default().to_string());
            all.collect::<Vec<_>>()
        };
        assert_eq!(weaker("a.load(Ordering::Acquire);"), ["ordering Acquire to Relaxed"]);
        assert_eq!(weaker("a.store(1, sync::Ordering::SeqCst);"), ["ordering SeqCst to Release"]);
        assert_eq!(weaker("a.peek(Ordering::SeqCst);"), ["ordering SeqCst to Acquire"]);
        let both = ["ordering AcqRel to Acquire", "ordering AcqRel to Release"];
        assert_eq!(weaker("a.swap(1, Ordering::AcqRel);"), both);
        assert_eq!(
            weaker("a.load(Ordering::Relaxed); a.cmp(b) == c::Ordering::Less;")[..],
            ["condition flips `a.cmp(b) == c::Ordering::Less`"]
        );
    }

    #[test]
    fn fences_are_dropped_and_weakened() {
        let fence = "fence drops `fence(Ordering::SeqCst)`";
        let weaker = "ordering SeqCst to AcqRel in `impl<T> It<T> { fn f() { fence(Ordering::SeqCst); } }`";
        assert_eq!(changes("fence(Ordering::SeqCst);"), [fence, weaker]);
        assert_eq!(changes("heavy_barrier();"), ["fence drops `heavy_barrier()`"]);
    }

    #[test]
    fn operands_of_conditions_are_flipped_and_early_exits_dropped() {
        assert_eq!(changes("if a && !b.is_c() { d(); }"), ["condition flips `a`", "condition flips `b.is_c()`"]);
        let leaves = ["recheck never leaves for `let Some(x) = y && x > 1`", "condition flips `x > 1`"];
        assert_eq!(changes("if let Some(x) = y && x > 1 { return; }"), leaves);
        assert_eq!(changes("if a { return } else { b }"), ["condition flips `a`"]);
        assert_eq!(changes("match a { Some(b) if b == 1 => c, _ => d }"), ["condition flips `b == 1`"]);
        assert_eq!(changes("list.filter(|a| a.b < 3)"), ["condition flips `a.b < 3`"]);
        assert_eq!(changes("a == b; a == b;"), ["condition flips `a == b`", "condition flips `a == b` #2"]);
    }

    #[test]
    fn constants_are_left_out() {
        assert_eq!(changes("if MODEL || cfg!(miri) { b() }"), [""; 0]);
        assert_eq!(changes("const A: bool = 1 < 2;"), [""; 0]);
        assert_eq!(changes("#[cfg(windows)] { if a { b() } } #[cfg(unix)] return a < 1;"), ["condition flips `a < 1`"]);
    }

    #[test]
    fn functions_that_are_evaluated_at_compile_time_and_tests_have_none() {
        let text = "const fn f() -> bool { 1 < 2 }\n#[cfg(test)] mod tests { fn g() -> bool { 1 < 2 } }\nmod below;";
        let found = find("it.rs", text);
        assert_eq!(found.mutants, []);
        assert_eq!(found.modules, ["below"]);
    }
}
