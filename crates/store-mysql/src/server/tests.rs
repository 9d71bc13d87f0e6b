use super::{Settings, check_cluster, check_usable, risks};

/// Returns the settings of a server as packages install it, with some changed.
fn settings(changes: &[(&str, &str)]) -> Settings {
    let usual = [
        ("binlog_format", "MIXED"),
        ("innodb_doublewrite", "ON"),
        ("innodb_flush_log_at_trx_commit", "1"),
        ("innodb_flush_method", "O_DIRECT"),
        ("innodb_force_recovery", "0"),
        ("innodb_read_only", "OFF"),
        ("log_bin", "OFF"),
        ("max_allowed_packet", "16777216"),
        ("read_only", "OFF"),
        ("sync_binlog", "0"),
    ];
    let all = usual.iter().chain(changes);
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn default_settings_have_no_risk() {
    assert_eq!(risks(&settings(&[]), false), [""; 0]);
    assert_eq!(risks(&settings(&[("log_bin", "ON"), ("sync_binlog", "1")]), false), [""; 0]);
    assert!(check_usable(&settings(&[]), false).is_ok());
}

#[test]
fn each_risk_names_its_setting() {
    let group = ("group_replication_group_name", "8a5c…");
    let single = "group_replication_single_primary_mode";
    let changed: [(&str, &[(&str, &str)]); 9] = [
        ("innodb_flush_log_at_trx_commit", &[("innodb_flush_log_at_trx_commit", "2")]),
        ("innodb_flush_log_at_trx_commit", &[("innodb_flush_log_at_trx_commit", "0")]),
        ("sync_binlog", &[("log_bin", "ON")]),
        ("sync_binlog", &[("log_bin", "1"), ("sync_binlog", "1000")]),
        ("innodb_doublewrite", &[("innodb_doublewrite", "OFF")]),
        ("innodb_flush_method", &[("innodb_flush_method", "nosync")]),
        ("innodb_force_recovery", &[("innodb_force_recovery", "3")]),
        ("wsrep_on", &[("wsrep_on", "ON")]),
        (single, &[group, (single, "OFF")]),
    ];
    for (name, changes) in changed {
        let risks = risks(&settings(changes), false);
        assert!(risks.len() == 1 && risks[0].starts_with(name), "{changes:?}: {risks:?}");
    }
}

#[test]
fn unusable_settings_are_refused_with_their_remedy() {
    let refused: [(&str, &[(&str, &str)]); 5] = [
        ("max_allowed_packet = 16M", &[("max_allowed_packet", "16777215")]),
        ("binlog_format = ROW", &[("log_bin", "ON"), ("binlog_format", "STATEMENT")]),
        ("innodb_read_only", &[("innodb_read_only", "ON")]),
        ("read_only is on", &[("read_only", "ON")]),
        ("super_read_only", &[("super_read_only", "1")]),
    ];
    for (remedy, changes) in refused {
        let error = check_usable(&settings(changes), false).expect_err(remedy);
        assert!(error.contains(remedy), "{error}");
    }
    let error = check_usable(&settings(&[]), true).expect_err("it is a replica");
    assert!(error.contains("STOP SLAVE"), "{error}");
}

#[test]
fn a_cluster_whose_nodes_all_write_is_refused_unless_one_node_serves_all() {
    let single = "group_replication_single_primary_mode";
    let group = ("group_replication_group_name", "8a5c");
    let provider = ("wsrep_provider", "/usr/lib/galera/libgalera_smm.so");
    let turned_off = [("wsrep_cluster_address", "gcomm://"), ("wsrep_on", "OFF"), provider];
    let refused: [&[(&str, &str)]; 4] =
        [&[("wsrep_on", "ON")], &[("wsrep_on", "1")], &turned_off, &[group, (single, "OFF")]];
    for changes in refused {
        let error = check_cluster(&settings(changes), false).expect_err("a cluster");
        assert!(error.contains("single_writer=yes"), "{error}");
        assert!(error.contains(changes.last().unwrap().0), "{error}");
        check_cluster(&settings(changes), true).expect("one node for all gateways");
    }
    // A server that has the plugin but no group, and a group with one primary, are no such
    // clusters.
    let accepted: [&[(&str, &str)]; 6] = [
        &[],
        &[("wsrep_cluster_address", ""), ("wsrep_on", "OFF"), ("wsrep_provider", "none")],
        &[("wsrep_on", "OFF"), provider],
        &[("wsrep_on", "OFF")],
        &[("group_replication_group_name", ""), (single, "OFF")],
        &[group, (single, "ON")],
    ];
    for changes in accepted {
        check_cluster(&settings(changes), false).expect("no cluster with several writers");
    }
}

#[test]
fn asynchronous_replicas_are_a_risk_unless_they_are_never_promoted() {
    let replicas = ("Slaves_connected", "2");
    let enabled = ("rpl_semi_sync_master_enabled", "ON");
    let (after_sync, on) =
        (("rpl_semi_sync_master_wait_point", "AFTER_SYNC"), ("Rpl_semi_sync_master_status", "ON"));
    let late = ("rpl_semi_sync_master_wait_point", "AFTER_COMMIT");
    let timed_out = ("Rpl_semi_sync_master_status", "OFF");
    let risky: [&[(&str, &str)]; 3] =
        [&[replicas], &[replicas, enabled, late, on], &[replicas, enabled, after_sync, timed_out]];
    for changes in risky {
        let found = risks(&settings(changes), false);
        assert!(found.len() == 1 && found[0].contains("never_promoted"), "{changes:?}: {found:?}");
        assert_eq!(risks(&settings(changes), true), [""; 0]);
    }
    let safe: [&[(&str, &str)]; 2] =
        [&[("Slaves_connected", "0")], &[replicas, enabled, after_sync, on]];
    for changes in safe {
        assert_eq!(risks(&settings(changes), false), [""; 0]);
    }
}
