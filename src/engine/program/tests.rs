use oxc_allocator::Allocator;
use oxc_ast::ast::Statement;
use oxc_parser::Parser;
use oxc_span::SourceType;
use proptest::prelude::*;

use super::{CompileError, CompiledProgram, Construct, PROGRAM_LIMIT_BYTES, compile_program};

fn compiled(source: &str) -> CompiledProgram {
    match compile_program(source) {
        Ok(program) => program,
        Err(error) => panic!("{source}\n{error}"),
    }
}

fn refused(source: &str) -> CompileError {
    match compile_program(source) {
        Ok(program) => panic!("{source}\n{}", program.javascript),
        Err(error) => error,
    }
}

/// What stands in the wrapper, blanks and line breaks as one blank.
fn body(source: &str) -> String {
    let javascript = compiled(source).javascript;
    let rest = javascript.strip_prefix("export default ($fuel) => async () => {").expect("the wrapper begins");
    let words: Vec<&str> = rest.strip_suffix("};").expect("the wrapper ends").split_whitespace().collect();
    words.join(" ")
}

/// The module is valid, and it is one default export.
fn assert_is_module(javascript: &str) {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, javascript, SourceType::mjs()).parse();
    assert_eq!(parsed.diagnostics.errors().next(), None, "{javascript}");
    let [Statement::ExportDefaultDeclaration(_)] = parsed.program.body.as_slice() else {
        panic!("{javascript}");
    };
}

/// Runs with the stack that a wasm module has.
fn with_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(1024 * 1024).spawn(work);
    thread.expect("a thread starts").join().expect("the work does not panic")
}

#[test]
fn program_is_wrapped_in_a_factory_of_an_async_function() {
    let program = compiled("const answer: number = 42;\nreturn answer");
    assert_eq!(
        program.javascript,
        "export default ($fuel) => async () => {const answer         = 42;\nreturn answer\n};"
    );
    assert_eq!(program.lines, [1, 2, 0]);
}

#[test]
fn every_way_to_write_a_program_returns_its_value() {
    let cases = [
        // Statements.
        ("return 1", "return 1"),
        ("const a = await f()\na.b", "const a = await f() return a.b"),
        ("if (a) { return 1 }\n2", "if (a) { return 1 } 2"),
        ("f(() => { return 1 })", "return f(() => {$fuel(); return 1 })"),
        ("throw 1", "throw 1"),
        ("1;;\n;", "return 1;; ;"),
        ("'a string'", "return 'a string'"),
        ("'use strict'; 1", "'use strict'; return 1"),
        ("#!/usr/bin/env node\n1", "return 1"),
        ("main()\nfunction main() {}", "return main() function main() {$fuel();}"),
        ("f()\ninterface A {}", "return f() ;"),
        // A function.
        ("() => 1", "return (() => {$fuel();return 1})()"),
        ("async () => { f() };", "return (async () => {$fuel(); f() })();"),
        ("(async () => f())", "return ((async () => {$fuel();return f()}))()"),
        ("(async () => f())()", "return (async () => {$fuel();return f()})()"),
        ("async function () { f() }", "const $value= async function () {$fuel(); f() }; return $value();"),
        ("function<T> (): T { f() }", "const $value= function () {$fuel(); f() }; return $value();"),
        ("async function* () {}", "const $value= async function* () {$fuel();}; return $value();"),
        ("async function main() {}", "async function main() {$fuel();} return main();"),
        ("const main = () => f()", "const main = () => {$fuel();return f()} return main();"),
        ("type A = 1\nfunction main(a?: A) {}", "; function main(a ) {$fuel();} return main();"),
        ("const a = 1\n;(() => a)", "const a = 1 ;return ((() => {$fuel();return a}))()"),
        // A default export.
        ("export default () => 1", "const $value= () => {$fuel();return 1}; return $value();"),
        ("export default async function () {}", "const $value= async function () {$fuel();}; return $value();"),
        ("export default function main() {}\nconst a = 1", "function main() {$fuel();} const a = 1 return main();"),
        ("export default a.b", "const $value= a.b; return typeof $value===\"function\"?$value():$value;"),
        ("export default <A>{ b }", "const $value= ( { b }); return typeof $value===\"function\"?$value():$value;"),
        // Markdown.
        ("```ts\nreturn 1\n```", "return 1"),
        ("Here's it:\r\n\r\n  ```TypeScript\r\n1\r\n  ```\r\nDone.", "return 1"),
        ("```\nfunction () { f() }\n```", "const $value= function () {$fuel(); f() }; return $value();"),
        ("Code:\n````js title=a\n/*\n```\n*/ 1\n````", "/* ``` */ return 1"),
        ("```json\n{}\n```\nand\n```js\n1", "return 1"),
        ("/*\n```ts\n2\n```\n*/\n1", "/* ```ts 2 ``` */ return 1"),
        ("\u{feff}1", "return 1"),
        ("1 // a", "return 1 // a"),
    ];
    for (source, expected) in cases {
        assert_eq!(body(source), expected, "{source}");
        assert_is_module(&compiled(source).javascript);
    }
}

#[test]
fn types_are_blanked_and_typescript_is_lowered() {
    let cases = [
        ("interface A { a: number }\ntype B<T> = T extends infer U ? U : never\n1", "; ; return 1"),
        ("declare const a: any; declare global { interface A {} }\n1", "; ; return 1"),
        ("f<number>(a!, b as any, c satisfies D, <E>d)", "return f (a , b , c , ( d))"),
        ("let a: Map<string, Set<number>> | undefined", "let a"),
        ("a?.b!.c", "return a?.b .c"),
        (
            "enum A { B, C = 'c', D = 1 << 3, E, 'f' = -2, G }",
            "const A={};[ A[A[\"B\"]=0]=\"B\" , A[\"C\"]= 'c', A[A[\"D\"]= 1 << 3]=\"D\", \
             A[A[\"E\"]=A[\"D\"]+1]=\"E\" , A[A['f']= -2]='f', A[A[\"G\"]=-1]=\"G\" ];",
        ),
        (
            "enum A { B = 'b', C = B + D, D = A.B, E = `${b => B + b}` }\nenum A { F = B }",
            "const A={};[ A[\"B\"]= 'b', A[\"C\"]= A.B + A.D, A[\"D\"]= A.B, \
             A[\"E\"]= `${b => {$fuel();return A.B + b}}` ]; ;[ A[\"F\"]= A.B ];",
        ),
        (
            "class A<T> extends B implements C { constructor(private readonly a: T) { super() } \
             declare b: T; c(): void; c() {} }",
            "class A extends B {a; constructor( a ) {$fuel(); super(),this.a=a } ; ; c() {$fuel();} }",
        ),
        (
            "class A { constructor(public a = 1, b?: 2) { f() } }",
            "class A {a; constructor( a = 1, b ) {$fuel();this.a=a; f() } }",
        ),
        (
            "class A extends B { constructor(public a) { x = super(); } }",
            "class A extends B {a; constructor( a) {$fuel(); x = (super(),this.a=a,this); } }",
        ),
        (
            "class A extends B { constructor(public a, protected b) { if (a) super(a); else super() } }",
            "class A extends B {a;b; constructor( a, b) {$fuel(); if (a) super(a),this.a=a,this.b=b; \
             else super(),this.a=a,this.b=b } }",
        ),
        ("function f(this: A, a?: string): asserts a is 'a' {}\nf()", "function f( a ) {$fuel();} return f()"),
    ];
    for (source, expected) in cases {
        assert_eq!(body(source), expected, "{source}");
        assert_is_module(&compiled(source).javascript);
    }
}

/// What a type keeps apart or together stays so without it.
#[test]
fn blanks_do_not_join_or_split_statements() {
    let cases = [
        ("a = b as C\n(d)", "a = b ; return (d)"),
        ("a = b satisfies C\n[d]", "a = b ; return [d]"),
        ("a = b as C // c\n`d`", "a = b ; // c return `d`"),
        ("a = b\ntype C = D\n(e)", "a = b ; return (e)"),
        ("a = b\ndeclare let c: D\n[e]", "a = b ; return [e]"),
        ("let a: B\n(c)", "let a return (c)"),
        ("f = a => b as C\n(d)", "f = a => {$fuel();return b }; return (d)"),
        ("while (a) b as C\n(d)", "while (a){$fuel(); b }; return (d)"),
        ("return <A>\nb", "return ( b)"),
        ("return <A>(b) => c", "return (b) => {$fuel();return c}"),
        ("return <\nA>(b) => c", "return ( b) => {$fuel();return c}"),
        ("return async <\nA>(b) => c", "return async ( b) => {$fuel();return c}"),
        ("a = (b): {\nc: D\n} => e", "return a = (b ) => {$fuel();return e}"),
        ("a = async (b /* ) */): Promise<\nC> => e", "return a = async (b /* ) */ ) => {$fuel();return e}"),
        ("a = (): // b\nC => d", "return a = ( ) => {$fuel();return d}"),
        ("async <T>(x) => x", "return (async (x) => {$fuel();return x})()"),
        ("a = () => <B>{ c }", "return a = () => {$fuel();return ( { c })}"),
        ("<any>function () {}\n1", "( function () {$fuel();}) return 1"),
        ("class A { b = c as D\n['e'] = 1 }", "class A { b = ($fuel(),c ); ['e'] = 1 }"),
        ("class A { b = 1\nprivate ['e'] = 1 }", "class A { b = 1 ; ['e'] = 1 }"),
        ("class A { b = 1\nprivate *e() {} }", "class A { b = 1 ; *e() {$fuel();} }"),
        ("class A { b = 1\ndeclare c: D\n['e'] = 1 }", "class A { b = 1 ; ['e'] = 1 }"),
        ("class A { b\n[c: string]: D\n['e'] = 1 }", "class A { b ; ['e'] = 1 }"),
        ("class A { get: B\nc() {} }", "class A { get ; c() {$fuel();} }"),
        ("class A { static?: B\nc() {} }", "class A { static ; c() {$fuel();} }"),
        ("class A { set!: B\n*c() {} }", "class A { set ; *c() {$fuel();} }"),
        ("class A { public async\nb: C }", "class A { ; async b ; }"),
        ("abstract class A { abstract b(): C\nabstract get d(): E\nf() {} }", "class A { ; ; f() {$fuel();} }"),
        ("class A { constructor(a: B)\nconstructor(a: C) {} }", "class A { ; constructor(a ) {$fuel();} }"),
        ("(class implements A {})", "return (class {})"),
        ("if (a) b as C\nelse d!", "if (a) b else d"),
        ("(eval as any)('a')", "return (globalThis.eval )('a')"),
        ("for (let a: B = c as D; a; a++) e", "for (let a = c ; a; a++){$fuel(); e}"),
        ("let a: B = c as D, e!: F", "let a = c , e"),
        ("try {} catch (a: unknown) {}", "try {} catch (a ) {}"),
        ("(a as B) = c", "return (a ) = c"),
        ("export default function f(): A\nexport default function f() {}", "; function f() {$fuel();} return f();"),
        ("export default function () {}\n(a)", "const $value= function () {$fuel();}; (a) return $value();"),
    ];
    for (source, expected) in cases {
        assert_eq!(body(source), expected, "{source}");
        assert_is_module(&compiled(source).javascript);
    }
}

#[test]
fn every_loop_turn_and_function_entry_counts_fuel() {
    let cases = [
        ("for (;;);", "for (;;){$fuel();;}"),
        ("for (const a of b) c", "for (const a of b){$fuel(); c}"),
        ("for await (const a of b) {}", "for await (const a of b) {$fuel();}"),
        ("for (const a in b) { c }", "for (const a in b) {$fuel(); c }"),
        ("while (a /* ) */) // )\nb", "while (a /* ) */){$fuel(); // ) b}"),
        ("do a; while (b)", "do{$fuel(); a;} while (b)"),
        ("a: for (;;) while (1) continue a", "a: for (;;){$fuel(); while (1){$fuel(); continue a}}"),
        ("if (a) for (;;); else b", "if (a) for (;;){$fuel();;} else b"),
        ("let f = a => ({ a })", "let f = a => {$fuel();return ({ a })} return f();"),
        ("a = async a => await a", "return a = async a => {$fuel();return await a}"),
        ("a => b => c", "return (a => {$fuel();return b => {$fuel();return c}})()"),
        ("function f() { 'use strict'; a }", "function f() { 'use strict';;$fuel(); a } return f();"),
        ("function f() { 'use strict'\na }", "function f() { 'use strict';$fuel(); a } return f();"),
        (
            "a = { b() {}, get c() { return 1 }, set c(d) {}, async *e() {} }",
            "return a = { b() {$fuel();}, get c() {$fuel(); return 1 }, set c(d) {$fuel();}, \
             async *e() {$fuel();} }",
        ),
        (
            "class A extends B { constructor() { super() } static { f() } a = f(); b = () => 1; c = 1; d }",
            "class A extends B { constructor() {$fuel(); super() } static {$fuel(); f() } \
             a = ($fuel(),f()); b = () => {$fuel();return 1}; c = 1; d }",
        ),
        (
            "function* f(a = f(), { [f()]: b = f() }) {}; 1",
            "function* f(a = ($fuel(),f()), { [($fuel(),f())]: b = ($fuel(),f()) }) {$fuel();}; return 1",
        ),
        ("debugger; a", "; return a"),
        ("if (a) debugger; a", "if (a) ; return a"),
        ("eval('a'); (eval)('b')", "globalThis.eval('a'); return (globalThis.eval)('b')"),
    ];
    for (source, expected) in cases {
        assert_eq!(body(source), expected, "{source}");
        assert_is_module(&compiled(source).javascript);
    }
}

#[test]
fn program_cannot_name_the_fuel_counter() {
    let cases = [
        ("const $fuel = 1", "$fuel1"),
        ("const \\u0024fuel = 1; const \\u{24}fuel1 = 2", "$fuel2"),
        ("const $f\\u{0075}el = 1; $\\u0066uel1", "$fuel2"),
        ("a.$fuel; '$fuel1'; $fuel3", "$fuel2"),
        ("$fuels", "$fuel"),
    ];
    for (source, counter) in cases {
        let javascript = compiled(source).javascript;
        let start = format!("export default ({counter}) => async () => {{");
        assert!(javascript.starts_with(&start), "{javascript}");
    }
    assert_eq!(
        body("const $value = 1; export default $value"),
        "const $value = 1; const $value1= $value; \
         return typeof $value1===\"function\"?$value1():$value1;"
    );
}

#[test]
fn rules_that_the_grammar_does_not_express_are_checked() {
    let cases = [
        ("let a; const a = 1", "`a` has already been declared"),
        ("let a; { var a }", "`a` has already been declared"),
        ("{ class A {} let A }", "`A` has already been declared"),
        ("{ function a() {} function a() {} }", "`a` has already been declared"),
        ("function f(a, a) {}", "`a` has already been declared"),
        ("(a, { b: [a] }) => 1", "`a` has already been declared"),
        ("function f(a) { let a }", "`a` has already been declared"),
        ("try {} catch (a) { let a }", "`a` has already been declared"),
        ("enum A {} class A {}", "`A` has already been declared"),
        ("switch (1) { case 1: let a; case 2: let a }", "`a` has already been declared"),
        ("for (;;) { (() => { break })() }", "`break`"),
        ("a: { continue a }", "`continue`"),
        ("a: { break b }", "`break`"),
        ("switch (1) { case 1: continue }", "`continue`"),
        ("a: a: b()", "label"),
        ("enum A { B = 'b', C }", "needs a value"),
        ("class {}", "needs a name"),
    ];
    for (source, expected) in cases {
        let CompileError::Syntax { message, .. } = refused(source) else { panic!("{source}") };
        assert!(message.contains(expected), "{source}: {message}");
    }
    for source in [
        "let a; { let a; { let a } } (a => { a })(1)",
        "var a; var a; function f() {} function f() {}",
        "function f(a) { var a } for (let i;;) { let i }",
        "try {} catch (a) { var a } try {} catch (a) {}",
        "function a(): void; function a() {} let b = function b() { let b }",
        "interface A {} const A = 1; type B = 1; class B {}",
        "enum A { B } enum A { C = 1 } { enum A { D } }",
        "a: b: for (;;) { c: while (1) { continue b; break a } break }",
        "switch (1) { case 1: break; default: for (;;) continue }",
        "class A { static { var a; let b } static { let a } c = () => { let a } }",
    ] {
        assert_is_module(&compiled(source).javascript);
    }
}

#[test]
fn lines_refer_to_the_text_that_was_sent() {
    let cases: [(&str, &[u32]); 8] = [
        ("\n\na()", &[1, 2, 3, 0]),
        ("Text\n```ts\na()\n\nb()\n```", &[3, 4, 5, 6, 0]),
        ("interface A {\n}\na()\r\nb()", &[1, 2, 3, 4, 0]),
        ("async () => {\n\n  a()\n}", &[1, 2, 3, 4, 0]),
        ("\nfunction () {\n  a()\n}", &[1, 2, 3, 4, 2]),
        ("a = `\n${b}\n`\nc", &[1, 2, 3, 4, 0]),
        ("a('\u{2028}')\nb()", &[1, 1, 2, 0]),
        ("let a: {\u{2028}\n\r}\nb()", &[1, 1, 2, 2, 3, 0]),
    ];
    for (source, expected) in cases {
        let program = compiled(source);
        assert_eq!(program.lines, expected, "{source}\n{}", program.javascript);
        assert_eq!(super::source::script_lines(&program.javascript, 1).len(), expected.len(), "{source}");
    }
}

#[test]
fn fuel_that_runs_out_is_at_the_line_of_its_loop() {
    let program = compiled("a()\n\nwhile (true)\n\n  b()");
    let index = program.javascript.lines().position(|line| line.contains("$fuel();"));
    assert_eq!(program.lines[index.expect("the loop counts")], 3, "{}", program.javascript);
}

#[test]
fn empty_programs_are_refused() {
    for source in ["", " \n", "// only a comment", ";;", "interface A {}", "```ts\n```", "declare const a: 1"] {
        assert_eq!(refused(source), CompileError::Empty, "{source}");
    }
}

#[test]
fn size_is_limited() {
    let source = format!("'{}'", "a".repeat(PROGRAM_LIMIT_BYTES - 2));
    compiled(&source);
    let error = refused(&format!("{source};"));
    let (bytes, limit) = (PROGRAM_LIMIT_BYTES + 1, PROGRAM_LIMIT_BYTES);
    assert_eq!(error, CompileError::TooLarge { bytes, limit });
}

#[test]
fn error_tells_the_model_where_and_what_to_do() {
    let cases = [
        (
            "const a = await tools.b({\n  c: 1\nreturn a",
            "Line 3, column 1 (`return a`) is not valid TypeScript: Expected `,` or `}` but found \
             `return` (bracket opened at line 1); correct it and send the whole program again.",
        ),
        (
            "Text:\n```ts\r\nfoo(;\r\n```",
            "Line 3, column 5 (`foo(;`) is not valid TypeScript: Unexpected token `;`; correct it \
             and send the whole program again.",
        ),
        (
            "let ä = 'é'; let ä",
            "Line 1, column 18 (`let ä = 'é'; let ä`) is not valid TypeScript: Identifier `ä` has \
             already been declared (at line 1); correct it and send the whole program again.",
        ),
        (
            "async function () {\n  a()\n",
            "Line 2, column 6 (`a()`) is not valid TypeScript: Expected `}` but found the end of the \
             program (bracket opened at line 1); correct it and send the whole program again.",
        ),
        (
            "import { readFile } from 'fs'",
            "Line 1, column 1 (`import { readFile } from 'fs'`) imports a module, but programs \
             cannot import anything: remove the import and use the global `tools` instead.",
        ),
        (
            "export const a = 1",
            "Line 1, column 1 (`export const a = 1`) exports a name, but only `export default` has \
             a meaning here: remove the word `export`, and return the value or export one function \
             by default.",
        ),
        (
            "@a class A {}",
            "Line 1, column 1 (`@a class A {}`): decorators are not supported; call the function \
             yourself.",
        ),
        (
            "```ts\n1\n```\n```ts\n2\n```",
            "The text holds more than one code block, the second at line 4: send exactly one program.",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(refused(source).to_string(), expected);
    }
}

#[test]
fn long_line_is_cut_around_the_error() {
    let line = format!("{}; ) {}", "é".repeat(1000), "b".repeat(1000));
    let CompileError::Syntax { column, text, .. } = refused(&line) else { panic!() };
    assert_eq!(column, 1003);
    assert_eq!(text.chars().count(), 200);
    assert!(text.contains("é; ) b"), "{text}");
}

#[test]
fn modules_are_refused_in_every_form() {
    let imports = [
        "import a from 'a'",
        "import 'a'",
        "import type { A } from 'a'",
        "import * as a from 'a'",
        "import a = require('a')",
        "import defer * as a from 'a'",
        "import source a from 'a'",
        "export * from 'a'",
        "export { a } from 'a'",
        "let a: import('a').B",
        "type A = typeof import('a')",
    ];
    for source in imports {
        assert!(matches!(refused(source), CompileError::Import { .. }), "{source}");
    }
    let dynamic = [
        "await import('a')",
        "() => { class A { a = `${import(b + c)}` } }",
        "import.source('a')",
        "import.defer('a')",
        "f(import('a', { with: { a: 'b' } }))",
    ];
    for source in dynamic {
        assert!(matches!(refused(source), CompileError::DynamicImport { .. }), "{source}");
    }
    for source in ["export { a }; let a", "export {}", "export = 1", "export function f() {}", "export type A = 1"] {
        assert!(matches!(refused(source), CompileError::NamedExport { .. }), "{source}");
    }
    assert!(matches!(refused("import.meta.url"), CompileError::ImportMeta { .. }));
    for source in [
        "export default 1; export default 2",
        "a: export default 1",
        "if (a) export default 1",
        "i\\u006dport 'a'",
        "i\\u006dport('a')",
    ] {
        assert!(matches!(refused(source), CompileError::Syntax { .. }), "{source}");
    }
}

#[test]
fn unsupported_constructs_are_named() {
    let cases = [
        ("class A { @a b }", Construct::Decorator),
        ("class A { accessor a = 1 }", Construct::AutoAccessor),
        ("namespace A { const a = 1 }", Construct::Namespace),
        ("export default class {}", Construct::DefaultClass),
    ];
    for (source, expected) in cases {
        let CompileError::Unsupported { construct, .. } = refused(source) else {
            panic!("{source}");
        };
        assert_eq!(construct, expected, "{source}");
    }
}

#[test]
fn text_cannot_break_out_of_the_wrapper() {
    let sources = [
        "} ; evil() ; {",
        "}; })(); (() => {",
        "return 1 }, () => {",
        "*/ evil() /*",
        "<!-- a",
        "a\n--> b",
        "<div>{evil()}</div>",
        "`${",
        "'",
        "/a",
        "/* a",
        "with (a) {}",
        "new.target",
        "super.a",
        "break",
        "function f() { await 1 }",
        "a b",
        "'\\",
        "x = /\n/",
    ];
    for source in sources {
        assert!(matches!(refused(source), CompileError::Syntax { .. }), "{source}");
    }
    for source in
        ["a <!--b", "let a = 1; a--> b", "'</script>'", "`*/`", "// \u{2028}a", "\u{feff}#!x\n", "this", "arguments"]
    {
        if let Ok(program) = compile_program(source) {
            assert_is_module(&program.javascript);
        }
    }
}

#[test]
fn slash_is_a_division_or_a_regular_expression_as_in_the_parser() {
    let accepted = [
        "a / b / c",
        "(a) / 2 / '('",
        "a[0] / '('",
        "a++ / 1",
        "if (a) /[(]/.test(b)",
        "f(/[(]/)",
        "return /(/.a",
        "a\n++/(/.lastIndex",
        "`${a}/(`",
        "`${{}}/(`",
        "a! / 2",
        "x.return / 2",
        "while (a) /'/g.exec(b)",
        "a = b ? /(/ : 1",
        "a\n / (b)",
        "a = b\n / c / d",
    ];
    for source in accepted {
        // Those with an unclosed bracket in the regular expression are wrong, but for the parser.
        match compile_program(source) {
            Ok(program) => assert_is_module(&program.javascript),
            Err(CompileError::Syntax { message, .. }) => {
                assert!(!message.contains("cannot be told apart"), "{source}: {message}");
            }
            Err(error) => panic!("{source}: {error}"),
        }
    }
    for source in
        ["if (a) {}\n/b/.test(c)", "x = {} / 2", "await /a/", "a as B<C> / 2", "let a: B\n/'/", "let a\n/x/*\n(*/"]
    {
        let CompileError::Syntax { message, .. } = refused(source) else { panic!("{source}") };
        assert!(message.contains("cannot be told apart"), "{source}: {message}");
    }
}

/// What comes before, what is repeated, the innermost part, what is repeated after it, and the end.
type Nested = (&'static str, &'static str, &'static str, &'static str, &'static str);

const NESTED: [Nested; 56] = [
    ("", "(", "1", ")", ""),
    ("x=", "(a=", "1", ")", ""),
    ("x=", "(a=", "1", ")=>1", ""),
    ("x=", "[", "1", "]", ""),
    ("x=", "{a:", "1", "}", ""),
    ("x=", "({a:", "1", "})", ""),
    ("x=", "({a=", "1", "})=>1", ""),
    ("let ", "{a:", "b", "}", "=1"),
    ("", "{", "1", "}", ""),
    ("", "f(", "1", ")", ""),
    ("", "`${", "1", "}`", ""),
    ("", "!", "1", "", ""),
    ("", "typeof ", "1", "", ""),
    ("", "- ", "1", "", ""),
    ("", "await ", "1", "", ""),
    ("", "new ", "a", "", ""),
    ("", "1+", "1", "", ""),
    ("", "1**", "1", "", ""),
    ("", "(a||b&&c|d^e&f==g<h<<i+j*k**", "1", ")", ""),
    ("", "a?b:", "1", "", ""),
    ("", "a?", "1", ":b", ""),
    ("x=", "a?(b):(c)=>", "1", "", ""),
    ("", "a=", "1", "", ""),
    ("x=", "a=>", "1", "", ""),
    ("x=", "async(a)=>", "1", "", ""),
    ("x=", "()=>{return ", "1", "}", ""),
    ("x=", "async(", "1", ")", ""),
    ("x=", "function(){return ", "1", "}", ""),
    ("x=", "class{a=", "1", "}", ""),
    ("x=", "class extends ", "a", "{}", ""),
    ("x=", "{get a(){return ", "1", "}}", ""),
    ("a", ".b", "", "", ""),
    ("/*#__PURE__*/a", ".b", "", "", ""),
    ("a", "()", "", "", ""),
    ("a", "!", "", "", ""),
    ("a", " as b", "", "", ""),
    ("", "if(1)", "1", "", ""),
    ("", "if(1)a;else ", "1", "", ""),
    ("", "if(1)a,b;else ", "1", "", ""),
    ("", "if(1)a\nelse ", "1", "", ""),
    ("", "if(1){}else ", "1", "", ""),
    ("", "i\\u0066(1)\nx:", "1", "", ""),
    ("", "for(;;)", "1", "", ""),
    ("", "do ", "1", "\nwhile(1)", ""),
    ("", "a:", "1", "", ""),
    ("", "switch(1){case 1:", "1", "}", ""),
    ("let a:", "A<", "b", ">", ""),
    ("let a:", "A<b,A<", "b", ">>", ""),
    ("", "a<b,", "1", "", ""),
    ("let a:", "[", "b", "]", ""),
    ("let a:", "(a:", "b", ")=>c", ""),
    ("let a:", "()=>", "b", "", ""),
    ("type a=", "A extends B?C:", "b", "", ""),
    ("let a:", "keyof\n", "b", "", ""),
    ("let a:", "b|c&", "d", "", ""),
    ("function*g(){", "yield[", "1", "]", "}"),
];

fn nest((start, open, inner, close, end): Nested, depth: usize) -> String {
    format!("{start}{}{inner}{}{end}", open.repeat(depth), close.repeat(depth))
}

fn is_refused_for_nesting(source: &str) -> bool {
    matches!(compile_program(source), Err(CompileError::TooDeep { .. } | CompileError::TooComplex { .. }))
}

#[test]
fn nesting_never_overflows_a_small_stack() {
    with_small_stack(|| {
        for nested in NESTED {
            let (mut accepted, mut refused) = (4, 8_000);
            assert!(!is_refused_for_nesting(&nest(nested, accepted)), "{nested:?}");
            assert!(is_refused_for_nesting(&nest(nested, refused)), "{nested:?}");
            // The deepest that is accepted uses the most stack.
            while refused - accepted > 1 {
                let depth = usize::midpoint(accepted, refused);
                if is_refused_for_nesting(&nest(nested, depth)) {
                    refused = depth;
                } else {
                    accepted = depth;
                }
            }
        }
    });
}

/// Members of an enum; `before` in a value is the member before.
fn members(count: usize, value: &str) -> String {
    let mut before = "a".to_owned();
    let mut members = Vec::new();
    for number in 0..count {
        let name = format!("a{number}");
        members.push(format!("{name} = {},", value.replace("before", &before)));
        before = name;
    }
    members.concat()
}

#[test]
fn long_programs_are_not_deep_ones() {
    with_small_stack(|| {
        let statements = [
            "{ const a = await tools.a({ b: [1, 2] })\n}\n",
            "if (a < b) { c() } else if (d) { e() } else { f() }\n",
            "a.b(c => d).e()\n",
            "a: 1\n",
            "a = b ? (c) : (d) => e;\n",
            "for (let i = 0; i < n; i++) a += i;",
            "case_ = 1 << 2 | a >> b\n",
            "/* a */ 'a' // b\n",
        ];
        for statement in statements {
            compiled(&statement.repeat(1_000));
        }
        compiled(&format!("x = [a < b, {}]", "-c, { d: e ** f }, (g) => h,".repeat(100)));
        compiled(&format!("x = [{}]", "-c, { d: e ** f }, (g) => h, a ? b : c,".repeat(1_000)));
        compiled(&format!("switch (a) {{ {} }}", "case 'a': case 'b': f(); break\n".repeat(1_000)));
        compiled(&format!("enum A {{ {} }}", members(500, "1 << 3")));
        compiled(&format!("x = 'a'{}", "\n+ 'b'".repeat(1_000)));
        compiled(&format!("x = `{}`", "${a} ".repeat(5_000)));
        compiled(&format!("type A = {}\n1", "\n | 'a'".repeat(1_000)));
        compiled(&format!("interface A {{ {} }}\n1", "a: Map<string, B<C>>\n".repeat(200)));
    });
}

/// A regular expression after a type looks like a division, in which the quote would hide the rest.
#[test]
fn nesting_cannot_hide_behind_a_slash() {
    with_small_stack(|| {
        for start in ["type A = B\n/'/\n", "let a\n/`/\n", "a: for (;;) break a\n/\"/\n", "declare let a\n/x/*\n"] {
            refused(&format!("{start}{}", "(".repeat(20_000)));
        }
    });
}

#[test]
fn ambiguous_text_is_refused_instead_of_read_many_times() {
    let cases: [Nested; 6] = [
        ("type a=A extends ", "[infer U extends ", "b", "?1:2]", "?c:d"),
        ("let a:", "([a=1 as ", "b", "]:c)=>d", ""),
        ("let a:", "(readonly [a=1 as ", "b", "]:c)=>d", ""),
        ("x=1 satisfies ", "({[1 as ", "b", "]:a}:c)=>d", ""),
        ("x=1 as !", "([a=1 as !", "b", "]:c)=>d", ""),
        ("", "a<(b=", "c", ")=>d>e", ""),
    ];
    for nested in cases {
        let error = refused(&nest(nested, 60));
        assert!(matches!(error, CompileError::TooComplex { .. }), "{nested:?}: {error}");
    }
}

#[test]
fn enums_take_no_longer_than_their_text() {
    with_small_stack(|| {
        let doubling = members(60, "before + before");
        compiled(&format!("enum A {{ a = 'a', {doubling} }}"));
        compiled(&format!("enum A {{ a = 1{} }}", "+1".repeat(1_000)));
        compiled(&"enum A { a = b }\n".repeat(2_000));
    });
}

#[test]
fn equal_texts_give_equal_modules() {
    let source = "enum A { B, C }\nclass D { #e = () => A.B }\nfor (const f of g) { new D() }";
    assert_eq!(compile_program(source), compile_program(source));
}

const PIECES: [&str; 64] = [
    "a",
    "b",
    "1",
    "'s'",
    "`",
    "${",
    "}",
    "{",
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    "\n",
    " ",
    "=",
    "=>",
    "+",
    "-",
    "/",
    "<",
    ">",
    "?",
    ":",
    ".",
    "?.",
    "!",
    "*",
    "...",
    "&&",
    "async ",
    "await ",
    "function ",
    "class ",
    "extends ",
    "static ",
    "return ",
    "yield ",
    "for",
    "while",
    "do ",
    "if",
    "else ",
    "let ",
    "const ",
    "enum ",
    "type ",
    "interface ",
    "as ",
    "import ",
    "export ",
    "default ",
    "new ",
    "this",
    "super",
    "eval",
    "$fuel",
    "#a",
    "\\u0061",
    "/*",
    "*/",
    "```",
    "infer ",
];

/// Expressions with and without types.
const VALUES: [&str; 24] = [
    "a",
    "1",
    "f(a)",
    "a!",
    "(a as B)",
    "a as C",
    "<D>a",
    "[a]",
    "(a)",
    "`t${a as B}`",
    "x => x as E",
    "x = (x: F): G<\nH> => x",
    "x = <T,>(x: T) => x",
    "async <\nT\n>(x?: H) => x!",
    "new K<L>(a)",
    "m<N>(a)",
    "x = { q: a as R, s<T>(this: T) {} }",
    "x = function (this: S, y: T) {}",
    "x = class { private z: U; ['w'] = 1 as V }",
    "a satisfies W",
    "-a",
    "!a!",
    // In brackets: a template that begins the next line would be a tag in an optional chain, which JavaScript refuses.
    "(a?.b!.c)",
    "(<any>a)()",
];

/// Statements; `#` is a value and `%` a number of their own.
const STATEMENTS: [&str; 16] = [
    "#",
    "let v%: T = #",
    "let v%!: T",
    "type Q% = R",
    "interface I% { a: b }",
    "if (a) #",
    "while (a) #",
    "for (const x of a as Y) #",
    "do #\nwhile (b)",
    "declare const d%: E",
    "function g%(a: T): U\nfunction g%<T>(a?: T, ...b: U[]): asserts a is V { return # }",
    "enum N% { A, B = 3, C = B }",
    "abstract class C% { abstract a: b\n[k: string]: V\nprivate x = #\nget: T\nq() {}\nstatic y?: T\n*z() {} }",
    "class C% { constructor(private a: B, readonly c = #) {} }",
    "a ? # : #",
    "try { # } catch (e: any) { # }",
];

const SEPARATORS: [&str; 4] = ["\n", "\n // c\n", ";\n", "\n/* d\n */"];

proptest! {
    #[test]
    fn any_program_with_types_gives_a_module(
        parts in proptest::collection::vec(
            (
                proptest::sample::select(&STATEMENTS[..]),
                proptest::sample::select(&VALUES[..]),
                proptest::sample::select(&SEPARATORS[..]),
            ),
            1..6,
        )
    ) {
        let mut source = "a".to_owned();
        for (number, (statement, value, separator)) in parts.iter().enumerate() {
            source.push_str(separator);
            source.push_str(&statement.replace('#', value).replace('%', &number.to_string()));
        }
        let program = compiled(&source);
        assert_is_module(&program.javascript);
        assert_eq!(program.lines.len(), source.split('\n').count() + 1);
        assert_eq!(program.javascript.split('\n').count(), program.lines.len());
    }

    #[test]
    fn any_text_gives_a_module_or_an_error(
        pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..24)
    ) {
        if let Ok(program) = compile_program(&pieces.concat()) {
            assert_is_module(&program.javascript);
        }
    }

    #[test]
    fn the_value_of_any_expression_list_is_returned(numbers in proptest::collection::vec(0..100_u8, 1..9)) {
        let source = numbers.iter().map(u8::to_string).collect::<Vec<_>>().join("\n");
        let expected = numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(" ");
        let expected = match expected.rsplit_once(' ') {
            Some((head, last)) => format!("{head} return {last}"),
            None => format!("return {expected}"),
        };
        prop_assert_eq!(body(&source), expected);
    }
}
