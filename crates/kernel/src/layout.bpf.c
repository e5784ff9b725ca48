/* SPDX-License-Identifier: GPL-2.0 */
/*
 * layout.bpf.c - one variable of each struct and enum of bpf/intf.h, so that libbpf-cargo generates
 * their Rust equivalents. This file is compiled for its type information only and never loaded. The
 * skeleton of main.bpf.c does not suffice: it contains the types of global variables, but not those
 * of map keys and values.
 */
#include "intf.h"

struct spec layout_spec;
struct match_key layout_match_key;
struct server_info layout_server_info;
struct event layout_event;
struct reserve_args layout_reserve_args;
struct domain_info layout_domain_info;
struct domain_args layout_domain_args;
struct owner_args layout_owner_args;
struct demote_args layout_demote_args;
struct park_args layout_park_args;
struct disk_set_args layout_disk_set_args;
struct disk_watch_args layout_disk_watch_args;
struct disk_count_key layout_disk_count_key;
struct disk_count layout_disk_count;
enum disk_class layout_disk_class;
enum limits layout_limits;
enum spec_flags layout_spec_flags;
enum match_kind layout_match_kind;
enum server_state layout_server_state;
enum event_type layout_event_type;
enum server_policy layout_server_policy;
enum domain_policy layout_domain_policy;
enum domain_state layout_domain_state;
enum domain_change layout_domain_change;
enum exit_flags layout_exit_flags;
enum memory_class layout_memory_class;
enum memory_count layout_memory_count;
enum park_reason layout_park_reason;
