//! TLS: the URL decides which server certificates are accepted.

mod test_database;

use std::path::Path;

use sqlx::Row as _;
use store::StoreErrorKind;
use store_postgres::{PostgresOptions, PostgresStore};
use tempfile::TempDir;
use url::Url;

use crate::test_database::{connect, held, open, own_server, put, run, run_at, write};

/// Writes a text to a file that only the server can read.
fn for_server(text: &str, file: &str) -> String {
    let lines = text.trim().replace('\n', "','");
    format!("copy (select unnest(array['{lines}'])) to program 'umask 077; cat > {file}';")
}

fn with(url: &Url, parameters: &[(&str, &str)]) -> Url {
    let mut url = url.clone();
    url.query_pairs_mut().extend_pairs(parameters);
    url
}

/// Returns the number of sessions of stores, and the number of encrypted ones.
async fn sessions(url: &Url) -> (i64, i64) {
    let mut connection = connect(url).await;
    let text = "select count(*), count(*) filter (where s.ssl) from pg_stat_activity a \
                join pg_stat_ssl s using (pid) where a.application_name = 'ashlar'";
    let row = sqlx::query(text).fetch_one(&mut connection).await.expect("a row");
    (row.get(0), row.get(1))
}

#[test]
fn a_server_needs_a_certificate_of_the_root_in_the_url() {
    run(async {
        let Some(mut server) = own_server() else { return };
        let url = Url::parse(&server.fresh("tls")).expect("a URL");
        let folder = TempDir::new().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
        let [right, wrong] = ["right", "wrong"].map(|name| {
            let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
            let made = made.expect("a certificate");
            std::fs::write(Path::new(&path(name)), made.cert.pem()).expect("a file");
            made
        });
        let key = right.signing_key.serialize_pem();
        run_at(&url, &for_server(&right.cert.pem(), "server.crt")).await;
        run_at(&url, &for_server(&key, "server.key")).await;
        run_at(&url, "alter system set ssl = on").await;
        server.kill();
        server.restart();
        drop(wrong);

        let plain = with(&url, &[("sslmode", "disable")]);
        let store = open(&plain, true).await;
        write(&store, [put("a", "x")]).await;
        assert_eq!(sessions(&plain).await, (1, 0));
        drop(store);
        let root = path("right");
        let verified = with(&url, &[("sslmode", "verify-full"), ("sslrootcert", &root)]);
        let store = open(&verified, true).await;
        assert!(held(&store, "a").await.is_some());
        write(&store, [put("b", "x")]).await;
        let (all, encrypted) = sessions(&plain).await;
        assert!(encrypted >= 2, "{encrypted} of {all} sessions are encrypted");

        let root = path("wrong");
        let other = with(&url, &[("sslmode", "verify-full"), ("sslrootcert", &root)]);
        let opened = PostgresStore::open(other.as_str(), PostgresOptions::default()).await;
        let error = opened.expect_err("another root signed this server");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
        assert!(error.to_string().contains("certificate"), "{error}");
    });
}
