//! `opgate lsp`: sessions with an editor.
//!
//! A recorded session is a file in `sessions`, with one JSON object a line: `copy` and `write` prepare the workspace,
//! `move` renames a file of it, `send` is a message of the editor, `expect` one of the server. In texts, `WORKSPACE` is the directory. To record what the
//! server says now: `OPGATE_RECORD=1 cargo test --workspace --test e2e -- lsp::`.

mod changes_on_disk;
mod robustness;
mod session;

use self::session::replay;

macro_rules! sessions {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*

        #[test]
        fn every_recorded_session_is_replayed() {
            let mut files: Vec<_> = std::fs::read_dir(session::DIRECTORY)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            let mut replayed: Vec<_> =
                [$(stringify!($name)),*].iter().map(|name| format!("{name}.jsonl")).collect();
            replayed.sort();
            assert_eq!(files, replayed);
        }
    };
}

sessions! {
    misspelt_annotation_is_shown_explained_and_repaired,
    safe_fixes_are_made_when_a_file_is_saved,
    misplaced_file_is_renamed,
    editor_that_renames_no_files_is_offered_no_move,
    manifests_of_a_workspace_see_each_other,
    half_written_yaml_keeps_its_findings,
    waived_rule_needs_a_reason,
    reason_of_a_waiver_comes_from_the_editor,
    references_of_a_bundle_lead_to_their_targets,
    catalog_entries_lead_to_bundles,
    known_words_are_completed,
    objects_have_symbols,
    configuration_and_cases_are_checked,
    untrusted_configuration_runs_no_modules,
    closed_files_have_findings,
    saved_file_is_found_with_its_neighbours,
    unknown_requests_are_errors,
}
