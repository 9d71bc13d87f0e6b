//! The `OpenAPI` 3.1 document of the API, made from the table of endpoints.
//!
//! For example, each endpoint with an administrative action has the field `x-ashlar-action` with
//! the action that a policy must allow.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};
use utoipa::PartialSchema;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{Components, RefOr, Required, Schema};

use crate::endpoint::NamedSchema;
use crate::error::ErrorDocument;
use crate::routing::PREFIX;
use crate::{Endpoint, EndpointPermission, Output};

/// Returns the document. `version` is the version of the program.
pub(crate) fn document(version: &str) -> Value {
    let mut schemas: Vec<NamedSchema> = vec![("Error".to_owned(), ErrorDocument::schema())];
    let mut paths: BTreeMap<String, serde_json::Map<String, Value>> = BTreeMap::new();
    for &endpoint in Endpoint::ALL {
        let methods = paths.entry(format!("{PREFIX}{}", endpoint.path())).or_default();
        methods.insert(method_name(&endpoint.method()), operation(endpoint, &mut schemas));
    }
    let schemas: BTreeMap<String, RefOr<Schema>> = schemas.into_iter().collect();
    let mut components = Components::new();
    components.schemas = schemas.into_iter().collect();
    let mut components = json!(components);
    components["securitySchemes"] = json!({
        "sigv4": {
            "type": "apiKey", "name": "Authorization", "in": "header",
            "description": "AWS Signature Version 4 with the service `ashlar`.",
        },
        "token": { "type": "http", "scheme": "bearer" },
    });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Ashlar administration API",
            "version": version,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "sigv4": [] }, { "token": [] }],
        "paths": paths,
        "components": components,
    })
}

fn method_name(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}

/// Returns the operation object of an endpoint, and adds its schemas to `schemas`.
fn operation(endpoint: Endpoint, schemas: &mut Vec<NamedSchema>) -> Value {
    let mut parameters: Vec<Parameter> = path_parameters(endpoint.path());
    parameters.extend(endpoint.query_parameters());
    let tag = endpoint.path().split('/').nth(1).unwrap_or_default();
    let mut operation = json!({
        "operationId": endpoint.name(),
        "summary": endpoint.summary(),
        "tags": [tag],
        "parameters": parameters,
        "responses": responses(endpoint, schemas),
    });
    if let Some(name) = endpoint.body_schema(schemas) {
        operation["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": reference(&name) } },
        });
    }
    match endpoint.permission() {
        EndpointPermission::Open => operation["security"] = json!([]),
        EndpointPermission::Login => {}
        EndpointPermission::S3 => operation["x-ashlar-action"] = json!("s3"),
        EndpointPermission::Action(action) => operation["x-ashlar-action"] = json!(action.name()),
    }
    operation
}

fn responses(endpoint: Endpoint, schemas: &mut Vec<NamedSchema>) -> Value {
    let error = json!({
        "description": "The request failed.",
        "content": { "application/json": { "schema": reference("Error") } },
    });
    let schema = endpoint.output_schema(schemas);
    let content = schema.map(|name| json!({ "application/json": { "schema": reference(&name) } }));
    let tag = json!({ "ETag": {
        "description": "The state of the resource, for `If-Match` of a change.",
        "schema": { "type": "string" },
    } });
    match endpoint.output() {
        Output::Empty => json!({ "204": { "description": "Done." }, "default": error }),
        Output::Zip => json!({
            "200": { "description": "The file.", "content": { "application/zip": {
                "schema": { "type": "string", "format": "binary" },
            } } },
            "default": error,
        }),
        Output::Events => json!({
            "200": { "description": "The events.", "content": { "text/event-stream": {
                "schema": { "type": "string" },
            } } },
            "default": error,
        }),
        Output::Json(_) => json!({
            "200": { "description": "The result.", "content": content },
            "default": error,
        }),
        Output::Tagged(_) => json!({
            "200": { "description": "The resource.", "headers": tag, "content": content },
            "default": error,
        }),
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Returns the parameters in the braces of a path.
fn path_parameters(path: &str) -> Vec<Parameter> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| {
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .schema(Some(String::schema()))
            .build()
    };
    names.map(parameter).collect()
}

#[cfg(test)]
mod tests;
