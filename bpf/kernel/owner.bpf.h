/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel/owner.bpf.h - to which user a task belongs.
 *
 * 1. The login: pam_loginuid sets it when a user logs in, and no user can change it. su and sudo
 *    keep it. Where there is none (a service, a kernel without audit), the real user id counts.
 *
 * 2. A user can have thousands of ids in a namespace of users (subuid(5)). They belong to the user
 *    that has made the outermost of these namespaces, unless that is root.
 *
 * 3. Root's tasks belong to root, whose login it was: an administrator's shell.
 */
#ifndef APLOMB_KERNEL_OWNER_BPF_H
#define APLOMB_KERNEL_OWNER_BPF_H

#include "kernel/program.bpf.h"
#include "kernel/types.bpf.h"

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct user_namespace {
	struct user_namespace *parent;
	int level; /* 0: the machine's */
	kuid_t owner;
};

struct cred {
	kuid_t uid;
	struct user_namespace *user_ns;
};

/* Parts of struct task_struct, apart for the same reason as in kernel/types.bpf.h */
struct task_struct___owner {
	const struct cred *real_cred;
};

struct task_struct___login {
	kuid_t loginuid; /* not there without CONFIG_AUDIT */
};

#pragma clang attribute pop

#define NO_UID (~0U)
#define MOST_USER_NAMESPACES 33 /* the kernel's own bound of their depth, and 1 */

/* The user that has made the outermost namespace of users above @ns; 0: root, or there is none. */
static __always_inline u32 namespace_owner(struct user_namespace *ns)
{
	u32 i, owner = 0;

	bpf_for(i, 0, MOST_USER_NAMESPACES) {
		if (!ns || !BPF_CORE_READ(ns, level))
			break;
		owner = BPF_CORE_READ(ns, owner.val);
		ns = BPF_CORE_READ(ns, parent);
	}
	return owner;
}

static __always_inline const struct cred *cred_of(struct task_struct *p)
{
	return BPF_CORE_READ((struct task_struct___owner *)p, real_cred);
}

/* The real user id of @p. */
static __always_inline u32 task_uid(struct task_struct *p)
{
	return BPF_CORE_READ(cred_of(p), uid.val);
}

/* The user id to whose account @p's programs count. */
VERIFIED_ONCE u32 task_owner(struct task_struct *p __arg_trusted)
{
	const struct cred *cred = cred_of(p);
	u32 uid = BPF_CORE_READ(cred, uid.val), login = NO_UID, made_by;
	struct task_struct___login *t = (struct task_struct___login *)p;

	if (!uid)
		return 0;
	if (bpf_core_field_exists(t->loginuid))
		login = BPF_CORE_READ(t, loginuid.val);
	if (login && login != NO_UID)
		return login;
	made_by = namespace_owner(BPF_CORE_READ(cred, user_ns));
	return made_by ? made_by : uid;
}
#else /* the simulator's tasks have a user each */
u32 task_owner(struct task_struct *p);
#endif

#endif /* APLOMB_KERNEL_OWNER_BPF_H */
