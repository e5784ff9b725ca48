/* SPDX-License-Identifier: GPL-2.0 */
/*
 * task/match.bpf.h - which spec a program has: looked up in the kernel, without a hop to user
 * space.
 *
 * Source: Redline section 3 and Fig. 3. Executables are recognised by inode and device, so that a
 * process in a container, or a copy in a home directory, cannot pose as /usr/bin/Xorg. When a file
 * is deleted, the next file that is created may get its inode number, before the daemon has removed
 * the row. So the inode's generation counts too, where the file system has one. Scripts,
 * Wine, Flatpak and Snap run an interpreter's or a launcher's executable. They are recognised by an
 * argument, by the cgroup that their launcher put them in, or by the command's name. A file that
 * is many commands (busybox) is matched together with the name under which it was executed.
 *
 * Order: argument, file and name, file, application, command. One hash lookup each; kinds that no
 * spec uses are skipped.
 */
#ifndef APLOMB_MATCH_BPF_H
#define APLOMB_MATCH_BPF_H

#include "kernel/kfuncs.bpf.h"
#include "intf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SPECS);
	__type(key, struct match_key);
	__type(value, struct spec);
} matchers SEC(".maps");

u32 nr_matchers[NR_MATCH_KINDS]; /* of each kind; written by user space */

/* So that the skeleton knows this type */
const volatile struct match_key match_key_layout;

static __always_inline const struct spec *lookup(u64 kind, u64 a, u64 b, u64 c)
{
	struct match_key key = { .kind = kind, .a = a, .b = b, .c = c };

	return bpf_map_lookup_elem(&matchers, &key);
}

static __always_inline u64 hash_byte(u64 hash, char byte)
{
	return (hash ^ (u8)byte) * NAME_HASH_PRIME;
}

/* Matches an executable by its inode @ino on device @dev. */
static __always_inline const struct spec *match_file(struct file *file, u64 ino, u64 dev)
{
	u32 generation = file->f_inode->i_generation;
	const struct spec *spec = lookup(MATCH_FILE, ino, dev, generation);

	if (!spec && generation) /* the row of a file whose generation the daemon cannot read */
		spec = lookup(MATCH_FILE, ino, dev, 0);
	return spec;
}

/*
 * Matches the first ARGS_SCANNED arguments of the running program @p, whole and by their last path
 * part.
 */
static __noinline const struct spec *match_argument(struct task_struct *p, u64 ino, u64 dev)
{
	u64 whole = NAME_HASH_INIT, base = NAME_HASH_INIT, start, len;
	const struct spec *spec;
	char args[ARG_BYTES];
	u32 i, nr = 0;

	start = p->mm->arg_start;
	len = p->mm->arg_end - start;
	if (len > ARG_BYTES)
		len = ARG_BYTES;
	if (!len || bpf_probe_read_user(args, len, (void *)start))
		return NULL;
	bpf_for(i, 0, ARG_BYTES) {
		char byte;

		if (i >= len || nr > ARGS_SCANNED)
			break;
		byte = args[i & (ARG_BYTES - 1)];
		if (byte) {
			whole = hash_byte(whole, byte);
			base = byte == '/' ? NAME_HASH_INIT : hash_byte(base, byte);
			continue;
		}
		if (nr++) { /* not argv[0] */
			spec = lookup(MATCH_ARG, ino, dev, whole);
			if (!spec)
				spec = lookup(MATCH_ARG, ino, dev, base);
			if (spec)
				return spec;
		}
		whole = base = NAME_HASH_INIT;
	}
	return NULL;
}

/* Matches the parts of the leaf cgroup's name, as systemd, Flatpak and Snap form it (intf.h). */
static __noinline const struct spec *match_application(struct task_struct *p)
{
	TAKES_STACK(176);
	u64 part = NAME_HASH_INIT, to_dot = NAME_HASH_INIT;
	const struct spec *spec;
	char name[CGROUP_BYTES];
	u32 i;

	if (bpf_probe_read_kernel_str(name, sizeof(name),
				      BPF_CORE_READ(p, cgroups, dfl_cgrp, kn, name)) <= 0)
		return NULL;
	bpf_for(i, 0, CGROUP_BYTES) {
		char byte = name[i & (CGROUP_BYTES - 1)];

		if (byte && byte != '-' && byte != '@') {
			if (byte == '.')
				to_dot = part;
			part = hash_byte(part, byte);
			continue;
		}
		spec = lookup(MATCH_APP, part, 0, 0);
		if (!spec && !byte) /* the last part ends in ".scope", ".service" or ".slice" */
			spec = lookup(MATCH_APP, to_dot, 0, 0);
		if (spec || !byte)
			return spec;
		part = to_dot = NAME_HASH_INIT;
	}
	return NULL;
}

union comm {
	char name[COMM_LEN];
	u64 half[2];
};

static __always_inline const struct spec *match_name(u64 kind, const char *name)
{
	union comm comm = {};

	bpf_probe_read_kernel_str(comm.name, COMM_LEN, name);
	return lookup(kind, comm.half[0], comm.half[1], 0);
}

/* Matches one of the commands in a file that is many (busybox): by the file and the name. */
static __noinline const struct spec *match_named(struct task_struct *p, u64 ino, u64 dev)
{
	TAKES_STACK(96);
	u64 hash = NAME_HASH_INIT;
	union comm comm = {};
	u32 i;

	bpf_probe_read_kernel_str(comm.name, COMM_LEN, p->comm);
	bpf_for(i, 0, COMM_LEN) {
		char byte = comm.name[i % COMM_LEN];

		if (!byte)
			break;
		hash = hash_byte(hash, byte);
	}
	return lookup(MATCH_NAMED, ino, dev, hash);
}

/* Matches a kernel thread: by its whole name, then without the number or CPU at its end. */
static __noinline const struct spec *match_kthread(struct task_struct *p)
{
	const struct spec *spec;
	union comm comm = {};
	bool cut = false;
	u32 i;

	if (!nr_matchers[MATCH_KTHREAD])
		return NULL;
	bpf_probe_read_kernel_str(comm.name, COMM_LEN, p->comm);
	spec = lookup(MATCH_KTHREAD, comm.half[0], comm.half[1], 0);
	if (spec)
		return spec;
	bpf_for(i, 0, COMM_LEN) {
		char byte = comm.name[i % COMM_LEN];

		cut |= byte >= '/' && byte <= ':'; /* digits are in between */
		if (cut)
			comm.name[i % COMM_LEN] = 0;
	}
	return lookup(MATCH_KTHREAD, comm.half[0], comm.half[1], 0);
}

/* The spec of @p, which runs @file; *kind: how it was found. @exec: @p is current, in exec. */
static __always_inline const struct spec *match_program(struct task_struct *p, struct file *file,
							bool exec, u32 *kind)
{
	u64 ino = file->f_inode->i_ino, dev = file->f_inode->i_sb->s_dev;
	const struct spec *spec = NULL;

	*kind = MATCH_ARG;
	if (exec && nr_matchers[MATCH_ARG])
		spec = match_argument(p, ino, dev);
	if (!spec && nr_matchers[MATCH_NAMED]) {
		*kind = MATCH_NAMED;
		spec = match_named(p, ino, dev);
	}
	if (!spec && nr_matchers[MATCH_FILE]) {
		*kind = MATCH_FILE;
		spec = match_file(file, ino, dev);
	}
	if (!spec && nr_matchers[MATCH_APP]) {
		*kind = MATCH_APP;
		spec = match_application(p);
	}
	if (!spec && nr_matchers[MATCH_COMM]) {
		*kind = MATCH_COMM;
		spec = match_name(MATCH_COMM, p->comm);
	}
	return spec;
}

#endif /* APLOMB_MATCH_BPF_H */
