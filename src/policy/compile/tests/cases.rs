//! Mistakes in `[[cases]]`.

use super::*;

mistakes! {
    case_without_anything: "[[cases]]" => [
        "dir/p.toml:1:1: the case has no `request`\n  hint: add request = \"GET https://…\", \"tcp://HOST:PORT\" or \"dns:NAME\"",
        "dir/p.toml:1:1: the case has no `expect`\n  hint: add expect = \"permit\" or expect = \"deny\""];
    case_with_an_unknown_key: "[[cases]]\nrequest = \"dns:a.test\"\nexpects = \"deny\"" => [
        "dir/p.toml:1:1: the case has no `expect`\n  hint: add expect = \"permit\" or expect = \"deny\"",
        "dir/p.toml:3:1: unknown key \"cases.expects\"\n  hint: did you mean `expect`?"];
    case_with_another_answer: "[[cases]]\nrequest = \"dns:a.test\"\nexpect = \"allow\"" => [
        "dir/p.toml:3:10: \"allow\" is not a value of `expect`\n  hint: known here: permit, deny"];
    case_without_a_method: "[[cases]]\nrequest = \"https://a.test/\"\nexpect = \"deny\"" => [
        "dir/p.toml:2:11: \"https://a.test/\" is a URL, and a request has a method, too\n  hint: write it before the URL, such as GET https://HOST/PATH"];
    case_without_a_scheme: "[[cases]]\nrequest = \"GET a.test\"\nexpect = \"deny\"" => [
        "dir/p.toml:2:11: \"a.test\" is not a usable URL: it has no scheme\n  hint: write https://HOST/PATH, tcp://HOST:PORT or dns:NAME"];
    case_with_a_needless_code: "[[cases]]\nrequest = \"dns:a.test\"\nexpect = \"permit\"\ncode = \"rule_denied\"" => [
        "dir/p.toml:4:8: what is permitted has no code\n  hint: take `code` out, or write expect = \"deny\""];
    cases_of_wrong_type: "cases = \"GET https://a.test/\"" => [
        "dir/p.toml:1:9: `cases` cannot be of type string\n  hint: it takes tables, each under [[cases]]"];
    cases_of_texts: "cases = [\"GET https://a.test/\"]" => [
        "dir/p.toml:1:10: `cases` cannot be of type string\n  hint: it takes tables, each under [[cases]]"];
    no_cases: "cases = []" => ["dir/p.toml:1:9: `cases` is empty\n  hint: take it out, or add a [[cases]] table"];
}
