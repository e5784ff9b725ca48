/* SPDX-License-Identifier: GPL-2.0 */
/*
 * net/received.bpf.h - what arrives on the interface, by the domain whose sockets take it.
 *
 * It is counted only: a packet that is here has waited elsewhere, and nothing done here makes
 * another one come sooner. The kernel calls this for each packet that a socket takes (IPv4 and
 * IPv6), on the CPU on which it arrived, without a lock that CPUs share. What is forwarded has no
 * socket, and is not counted.
 */
#ifndef APLOMB_NET_RECEIVED_BPF_H
#define APLOMB_NET_RECEIVED_BPF_H

#include "net/types.bpf.h"

/*
 * Domains that are counted. At the limit one that received nothing for long is forgotten, such as
 * one whose cgroup is gone. An entry has 8 bytes for each CPU: 2 MB with 256 CPUs.
 */
#define MAX_RECEIVERS 1024

struct {
	__uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
	__uint(max_entries, MAX_RECEIVERS);
	__type(key, u64);   /* the cgroup's id */
	__type(value, u64); /* bytes, the headers of IP included */
} received SEC(".maps");

u64 device; /* the interface itself, while it has our qdisc; indices are of a network namespace */

/* Returns 1: the packet passes. */
SEC("cgroup_skb/ingress")
int aplomb_net_received(struct __sk_buff *skb)
{
	const struct sk_buff *packet = bpf_cast_to_kern_ctx(skb);
	u64 domain, bytes = skb->len, *sum;

	if ((u64)packet->dev != device)
		return 1;
	domain = bpf_skb_cgroup_id(skb);
	sum = bpf_map_lookup_elem(&received, &domain);
	if (sum)
		*sum += bytes; /* this CPU's, and softirqs do not preempt each other */
	else
		bpf_map_update_elem(&received, &domain, &bytes, BPF_NOEXIST);
	return 1;
}

#endif /* APLOMB_NET_RECEIVED_BPF_H */
