//! All tests of a file once more, with what lies on the devices encrypted.

use almandine_oplog::LogKeys;
use almandine_store::StorageCiphers;
use std::sync::Arc;

const VARIABLE: &str = "ALMANDINE_TEST_ENCRYPTED";

/// What a test's devices are encrypted with.
pub(crate) fn ciphers() -> Arc<StorageCiphers> {
    if std::env::var_os(VARIABLE).is_none() {
        return Arc::default();
    }
    let keys = LogKeys::parse(format!("one {}", "5A".repeat(32)).as_bytes()).expect("a key");
    Arc::new(StorageCiphers::new(Arc::new(keys)))
}

#[test]
fn all_again_encrypted() {
    let own = std::env::current_exe().expect("the path of the test");
    let mut again = std::process::Command::new(own);
    let again =
        again.args(["--skip", "again_encrypted", "--skip", "mutants"]).env(VARIABLE, "1").output().expect("the tests start");
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(again.status.success() && !said.contains("test result: ok. 0 passed"), "{said}");
}
