//! Tests on our own object: its BTF contains functions, structs and enums as a kernel's BTF does.

use super::*;

fn object() -> Types<'static> {
    Types::read(Path::new(concat!(env!("OUT_DIR"), "/main.bpf.o"))).unwrap()
}

#[test]
fn a_name_of_another_kind_is_not_a_function() {
    let types = object();
    assert!(types.has_function("scx_bpf_task_set_slice"));
    assert!(types.has_function("aplomb_init_task"));
    // These names are in the string section as struct, member, enumerator, variable or prefix.
    for other in [
        "sched_ext_ops",
        "cgroup_set_idle",
        "SCX_ENQ_LAST",
        "nr_cpus",
        "scx_bpf_task",
    ] {
        assert!(!types.has_function(other), "{other}");
    }
}

#[test]
fn a_member_is_looked_for_in_its_struct() {
    let types = object();
    assert!(types.has_member("sched_ext_ops", "cgroup_set_idle"));
    assert!(
        !types.has_member("sched_ext_ops", "cgroups"),
        "a member of task_struct"
    );
    assert!(!types.has_member("task_struct", "cgroup_set_idle"));
    assert!(
        !types.has_member("scx_enq_flags", "SCX_ENQ_LAST"),
        "an enum"
    );
}

#[test]
fn every_number_of_sched_ext_is_asked_for() {
    let types = object();
    assert_eq!(types.missing_enumerators(&types), Vec::<String>::new());
    let nothing = Types::read(Path::new(concat!(env!("OUT_DIR"), "/layout.bpf.o"))).unwrap();
    let missing = nothing.missing_enumerators(&types);
    for name in [
        "enum scx_enq_flags: SCX_ENQ_CPU_SELECTED",
        "enum scx_enq_flags: SCX_ENQ_LAST",
        "enum scx_dsq_id_flags: SCX_DSQ_LOCAL_ON",
        "enum scx_ent_flags: SCX_TASK_QUEUED",
        "enum scx_kick_flags: SCX_KICK_PREEMPT",
        "enum scx_dsq_iter_flags: SCX_DSQ_ITER_REV",
        "enum scx_ops_flags: SCX_OPS_ENQ_LAST",
        "enum scx_ops_flags: SCX_OPS_ENQ_EXITING",
        "enum scx_ops_flags: SCX_OPS_ENQ_MIGRATION_DISABLED",
    ] {
        assert!(missing.iter().any(|m| m == name), "{name}: {missing:?}");
    }
}

#[test]
fn flags_of_the_callbacks_are_translated_by_name() {
    let types = object();
    assert_eq!(types.ops_flags(&types, 2 | 16), 2 | 16);
    assert_eq!(types.ops_flags(&types, 2), 2);
}

#[test]
fn an_enumerator_without_an_enum_is_found_by_its_name() {
    let types = object();
    assert_eq!(types.unnamed_enumerator("___GFP_DIRECT_RECLAIM_BIT"), None);
    // an enum with a name does not count
    assert_eq!(types.unnamed_enumerator("SCX_ENQ_LAST"), None);
}
