/* SPDX-License-Identifier: GPL-2.0 */
/*
 * net/types.bpf.h - the kernel's structs and functions for a queueing discipline in BPF (qdisc),
 * since 6.16. See kernel/types.bpf.h for why they are written out.
 */
#ifndef APLOMB_NET_TYPES_BPF_H
#define APLOMB_NET_TYPES_BPF_H

#include "kernel/program.bpf.h"
#include "kernel/types.bpf.h"

#define TC_H_ROOT 0xffffffffU
#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1
/* Two states in which a struct sock is not one: a connection that is being made, or is over. */
#define TCP_TIME_WAIT 6
#define TCP_NEW_SYN_RECV 12

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	unsigned char skc_state;
};

struct sock_cgroup_data {
	struct cgroup *cgroup; /* that of the process when it made the socket */
};

struct sock {
	struct sock_common __sk_common;
	struct sock_cgroup_data sk_cgrp_data;
};

struct net_device {
	int ifindex;
};

struct sk_buff {
	struct net_device *dev; /* where it arrived, or leaves */
	struct sock *sk;        /* NULL: it was received and is forwarded, or the kernel made it */
	u32 mark;               /* of its socket (SO_MARK), or by a rule of the firewall */
	u32 priority;           /* of its socket (SO_PRIORITY) */
	char cb[48];
};

/* How sk_buff.cb is used by a qdisc. */
struct qdisc_skb_cb {
	unsigned int pkt_len; /* bytes on the link, the headers of all segments included */
};

struct netdev_queue {
	struct net_device *dev;
};

struct qdisc_skb_head {
	u32 qlen;
};

struct gnet_stats_queue {
	u32 backlog, drops, overlimits;
};

struct Qdisc {
	u32 parent;
	struct netdev_queue *dev_queue;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

struct nlattr;
struct netlink_ext_ack;

/* The list of packets that the kernel frees once it has no lock. */
struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};

#pragma clang attribute pop

/* A packet as programs of cgroups see it: the beginning. Its layout is fixed (uapi/linux/bpf.h). */
struct __sk_buff {
	u32 len;
};

struct Qdisc_ops {
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *arg, struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
	char id[16];
};

extern void *bpf_cast_to_kern_ctx(void *context) __ksym;
extern u32 bpf_skb_get_hash(struct sk_buff *skb) __ksym;
extern void bpf_kfree_skb(struct sk_buff *skb) __ksym;
extern void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym;
extern void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, u64 expire, u64 delta_ns) __ksym;
extern void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) __ksym;

/*
 * Bytes of @skb on the link. In a function of its own: the verifier takes sk_buff.cb for what the
 * qdisc may write.
 */
static __always_inline u32 packet_bytes(const struct sk_buff *skb)
{
	return ((struct qdisc_skb_cb *)skb->cb)->pkt_len;
}

#endif /* APLOMB_NET_TYPES_BPF_H */
