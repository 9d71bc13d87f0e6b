//! The list of the parts of the program (SBOM), in the JSON of `CycloneDX` 1.5.
//!
//! It follows from `cargo metadata` of the locked dependencies: the crates that the program
//! `ashlar` links, or that take part in its build, with version, licence, checksum and edges.
//! Crates of tests alone are left out. For example, `hyper` is a component with the package URL
//! `pkg:cargo/hyper@1.12.0`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::workspace::{Workspace, stdout};

/// The package of the program.
const PROGRAM: &str = "server";

/// Returns the list for a program of this version, as JSON.
pub(super) fn write(workspace: &Workspace, version: &str) -> Result<String> {
    let mut command = workspace.cargo();
    // The build has downloaded all crates.
    command.args(["metadata", "--locked", "--offline", "--format-version", "1"]);
    command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let metadata: Value = serde_json::from_str(&stdout(command)?)?;
    let lock = std::fs::read_to_string(workspace.root.join("Cargo.lock"))?;
    let list = list(&metadata, &checksums(&lock), version)?;
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

/// Returns the list for these metadata of cargo and the checksums by name and version.
fn list(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
    version: &str,
) -> Result<Value> {
    let packages = metadata["packages"].as_array().context("cargo lists packages")?;
    let packages: BTreeMap<&str, &Value> =
        packages.iter().map(|it| (text(&it["id"]), it)).collect();
    let edges = edges(metadata)?;
    let program = packages.iter().find(|(_, it)| text(&it["name"]) == PROGRAM);
    let program = *program.context("the workspace has the program's package")?.0;
    // Everything that the program reaches.
    let (mut reached, mut waiting) = (BTreeSet::new(), vec![program]);
    while let Some(id) = waiting.pop() {
        if reached.insert(id) {
            waiting.extend(edges.get(id).into_iter().flatten().copied());
        }
    }
    let components = reached.iter().filter(|id| **id != program).filter_map(|id| packages.get(id));
    let components: Vec<_> = components.map(|it| component(it, checksums)).collect();
    let reference = |id: &str| packages.get(id).map(|it| url(it));
    let dependencies = reached.iter().map(|id| {
        let needed = edges.get(id).into_iter().flatten().filter_map(|it| reference(it));
        json!({ "ref": reference(id), "dependsOn": needed.collect::<BTreeSet<_>>() })
    });
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "bom-ref": reference(program),
            "name": "ashlar",
            "version": version,
            "licenses": [{ "expression": "Apache-2.0" }],
        }},
        "components": components,
        "dependencies": dependencies.collect::<Vec<_>>(),
    }))
}

/// Returns the packages that each package needs to be linked or built, without those of its tests.
fn edges(metadata: &Value) -> Result<BTreeMap<&str, Vec<&str>>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo resolves packages")?;
    let mut edges = BTreeMap::new();
    for node in nodes {
        let needs = node["deps"].as_array().context("a package has dependencies")?;
        let is_of_program = |need: &&Value| {
            let kinds = need["dep_kinds"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|it| it["kind"] != "dev"))
        };
        let needs = needs.iter().filter(is_of_program).map(|need| text(&need["pkg"]));
        edges.insert(text(&node["id"]), needs.collect());
    }
    Ok(edges)
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (text(&package["name"]), text(&package["version"]));
    let mut component = json!({
        "type": "library",
        "bom-ref": url(package),
        "name": name,
        "version": version,
        "purl": url(package),
    });
    if let Some(licence) = package["license"].as_str() {
        // Old manifests separate alternatives by a slash.
        component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
    }
    if let Some(hash) = checksums.get(&(name.to_owned(), version.to_owned())) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": hash }]);
    }
    component
}

/// Returns the package URL.
fn url(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
}

/// Returns the checksums in a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim_start_matches(" = ").trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (field("name"), field("version"), field("checksum"))
        {
            found.insert((name, version), checksum);
        }
    }
    found
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
