//! A server that was built without object storage says so.

#![cfg(not(feature = "object-store"))]

use almandine_testkit::{Program, Server};

#[test]
fn a_configured_object_storage_is_an_error_that_says_how_to_build() {
    for name in ["--storage-object-url", "--log-object-url"] {
        let flags = [name, "s3://bucket/folder", "--appendonly", if name == "--log-object-url" { "yes" } else { "no" }];
        let refusal = Server::try_start(&Program::Almandine, &flags, &[]).err().unwrap_or_default();
        assert!(refusal.contains("--features object-store"), "{refusal}");
    }
}
