use super::*;

fn shell(text: &str, log: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", text]);
    Child::spawn(command, "the shell", log).expect("a shell starts")
}

#[test]
fn a_process_that_writes_nothing_is_ended_with_a_description() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = shell("echo begun; sleep 100; true", &folder.path().join("log"));
    let began = Instant::now();
    let error = child
        .wait_while_it_writes(&Stop::default(), Duration::from_mins(1), Duration::from_secs(1))
        .expect_err("it hangs");
    assert!(began.elapsed() < Duration::from_secs(30));
    let text = error.to_string();
    assert!(text.starts_with("the shell wrote nothing for 1 s\n"), "{text}");
    assert!(text.contains("S sleep 100 :"), "{text}");
}

#[test]
fn a_process_that_writes_is_not_quiet() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done";
    let mut child = shell(text, &folder.path().join("log"));
    let status = child
        .wait_while_it_writes(&Stop::default(), Duration::from_mins(1), Duration::from_secs(2))
        .expect("it ends by itself");
    assert!(status.success());
}
