//! What is known of subjects on the command line: kept in a file.

use anyhow::{Result, ensure};
use serde_json::json;

use super::Shell;

const SUBJECTS: &str = "\
subjects:
  - subject: ann
    tags: [vip, staff]
    attributes: {level: 3, plan: pro}
    timezone: Europe/Berlin
    quiet: {from: 22:00, to: 08:00}
    mute_until: 2030-01-31T10:00:00+01:00
    opt_out: [ads]
  - {subject: ben, tags: [new]}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_known_of_subjects_comes_from_a_file_and_goes_back_to_one() -> Result<()> {
    let shell = Shell::start()?;
    shell.write("subjects.yaml", SUBJECTS)?;
    let said = shell.says("subjects apply -f subjects.yaml --dry-run", 0)?;
    ensure!(said.contains("+ ann") && said.contains("2 to create") && said.contains("Nothing was changed"), "{said}");
    assert_eq!(shell.json("subjects get ann", 0)?["tags"], json!([]), "a dry run changes nothing");
    ensure!(shell.says("subjects apply -f subjects.yaml", 0)?.contains("2 created"), "they are told of");
    ensure!(shell.says("subjects apply -f subjects.yaml", 0)?.contains("2 unchanged"), "a second time changes nothing");
    let ann = shell.json("subjects get ann", 0)?;
    assert_eq!((&ann["attributes"], &ann["mute_until"]), (&json!({"level": 3, "plan": "pro"}), &json!("2030-01-31T09:00:00.000Z")));
    // It replaces all that was known; who is not in the file stays.
    shell.says("subjects put cem --tag new", 0)?;
    shell.write("subjects.yaml", &SUBJECTS.replace("    opt_out: [ads]\n", "").replace("08:00", "07:00").replace(", tags: [new]", ""))?;
    let said = shell.says("subjects apply -f subjects.yaml", 0)?;
    ensure!(said.contains("~ ann  quiet: ") && said.contains("opt_out: [\"ads\"] -> []"), "{said}");
    ensure!(said.contains("~ ben  tags: [\"new\"] -> []") && said.contains("2 changed"), "{said}");
    assert_eq!(shell.json("subjects get cem", 0)?["tags"], json!(["new"]));
    // What was exported is what is known, as YAML and as JSON, of those that are named.
    let known = ["ann", "ben", "cem"].map(|subject| shell.json(&format!("subjects get {subject}"), 0));
    shell.says("subjects export ann ben cem ann -o copy.yaml", 0)?;
    shell.says("subjects export ann ben cem -o copy.json --json", 0)?;
    for copy in ["copy.yaml", "copy.json"] {
        ensure!(shell.says(&format!("subjects apply -f {copy}"), 0)?.contains("3 unchanged"), "{copy}");
        shell.says("subjects put ann --tag other", 0)?;
        shell.says("subjects forget cem", 0)?;
        let done = shell.json(&format!("subjects apply -f {copy}"), 0)?;
        assert_eq!((&done["changed"], &done["created"], &done["unchanged"]), (&json!(1), &json!(1), &json!(1)), "{copy}");
        for (subject, known) in ["ann", "ben", "cem"].iter().zip(&known) {
            assert_eq!(shell.json(&format!("subjects get {subject}"), 0)?, *known.as_ref().expect("it is known"), "{copy}");
        }
    }
    ensure!(shell.says("subjects export ben", 0)?.trim() == "subjects:\n  - subject: ben", "alone and without what is as usual");
    ensure!(shell.says("subjects export", 2)?.contains("SUBJECT"), "there is no list of all");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_subjects_with_faults_names_their_places_and_changes_nothing() -> Result<()> {
    let shell = Shell::start()?;
    shell.write("subjects.yaml", &SUBJECTS.replace("Europe/Berlin", "Mars/Base").replace("subject: ben, tags", "subject: ben, tgs"))?;
    let said = shell.says("subjects apply -f subjects.yaml", 1)?;
    ensure!(said.contains("subjects.yaml:5:15: subject ann: timezone must name a time zone"), "{said}");
    ensure!(said.contains("subjects.yaml:9:25: subject ben: There is no field tgs here. Did you mean tags?"), "{said}");
    ensure!(said.contains("Nothing was changed: subjects.yaml has 2 faults."), "{said}");
    assert_eq!(shell.json("subjects get ann", 0)?["tags"], json!([]));
    Ok(())
}
