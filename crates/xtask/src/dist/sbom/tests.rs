use serde_json::json;

use super::*;

fn package(name: &str) -> Value {
    json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" })
}

fn need(name: &str, kind: Option<&str>) -> Value {
    json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] })
}

#[test]
fn the_list_has_the_parts_of_the_program_and_no_part_of_its_tests() {
    let metadata = json!({
        "packages": [package("server"), package("linked"), package("inner"), package("tester")],
        "resolve": { "nodes": [
            { "id": "server", "deps": [need("linked", None), need("tester", Some("dev"))] },
            { "id": "linked", "deps": [need("inner", Some("build"))] },
            { "id": "inner", "deps": [] },
            { "id": "tester", "deps": [] },
        ]},
    });
    let lock = "[[package]]\nname = \"inner\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
    let list = list(&metadata, &checksums(lock), "2.0.0").expect("a list");
    let components = list["components"].as_array().expect("components");
    let names: Vec<_> = components.iter().map(|it| text(&it["name"])).collect();
    assert_eq!(names, ["inner", "linked"]);
    assert_eq!(components[0]["purl"], "pkg:cargo/inner@1.0.0");
    assert_eq!(components[0]["hashes"][0]["content"], "abc");
    assert_eq!(components[1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    assert_eq!(list["metadata"]["component"]["version"], "2.0.0");
    let edges = list["dependencies"].as_array().expect("edges");
    let server = edges.iter().find(|it| it["ref"] == "pkg:cargo/server@1.0.0").expect("an edge");
    assert_eq!(server["dependsOn"], json!(["pkg:cargo/linked@1.0.0"]));
}
