/* SPDX-License-Identifier: GPL-2.0 */
/*
 * net/qdisc.bpf.c - the packets of one interface: the callbacks of its queueing discipline (qdisc).
 *
 * QLinux 2.3 (hsfq_qdisc). A packet goes to the leaf of its sender's domain (net/leaf.bpf.h). When
 * the link is free (policy/shaper.h), the tree says which leaf is next (policy/hsfq.h), and the
 * leaf whether the packet waited for too long (policy/codel.h).
 *
 *   sender --> enqueue --> [leaf] --> dequeue --> driver
 *                 \-- no room          \-- too old
 *                      dropped             dropped
 *
 * Each interface has a copy of this object, with maps and variables of its own. So interfaces share
 * nothing: no lock, no memory, no limit. The kernel calls enqueue, dequeue and reset under the
 * lock of the interface's root qdisc, which is what protects all variables here; user space only
 * reads them, and writes single words (aplomb_net_set(), link, target_ns).
 */
#include "net/leaf.bpf.h"
#include "net/received.bpf.h"
#include "policy/shaper.h"

char _license[] SEC("license") = "GPL";

SETTING u32 interface;    /* the index of the one that it is for */
SETTING u32 drop_old = 1; /* CoDel in each leaf */

struct shaper link;
u64 target_ns; /* for how long a packet may wait (policy/codel.h) */
u64 owner;     /* the qdisc that uses this object; 0: none */

/* The packets themselves, by their slot. */
struct packet_slot {
	struct sk_buff __kptr *skb;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HSFQ_PACKETS);
	__type(key, u32);
	__type(value, struct packet_slot);
} packets SEC(".maps");

/* Packets that one dequeue drops at most. The next one is sent, however old it is. */
#define DROPS_AT_ONCE 64

SEC("struct_ops/aplomb_net_enqueue")
int BPF_PROG(aplomb_net_enqueue, struct sk_buff *skb, struct Qdisc *sch,
	     struct bpf_sk_buff_ptr *to_free)
{
	u32 bytes = packet_bytes(skb), leaf = leaf_of(skb), slot = 0;
	struct packet_slot *at = NULL;

	if (hsfq_admit(&queue, leaf, bytes)) {
		slot = hsfq_slot(&queue);
		at = slot ? bpf_map_lookup_elem(&packets, &slot) : NULL;
	}
	if (!at) {
		hsfq_refused(&queue, leaf);
		sch->qstats.drops++;
		bpf_qdisc_skb_drop(skb, to_free);
		return NET_XMIT_DROP;
	}
	skb = bpf_kptr_xchg(&at->skb, skb);
	if (skb) /* never: the slot was free. But the verifier does not know. */
		bpf_qdisc_skb_drop(skb, to_free);
	hsfq_add(&queue, leaf, slot, bytes, bpf_ktime_get_ns());
	sch->q.qlen++;
	sch->qstats.backlog += bytes;
	return NET_XMIT_SUCCESS;
}

/* No packet may leave before @when; 0: there is none. */
static __always_inline void wait_until(struct Qdisc *sch, u64 when)
{
	if (!when)
		return;
	sch->qstats.overlimits++;
	bpf_qdisc_watchdog_schedule(sch, when, 0);
}

/*
 * Takes the first packet of @leaf. NULL: it was dropped, as it is too old and need not be @sent.
 * @alone: it is that packet (policy/hsfq.h 7), a constant, so that the verifier does not follow the
 * way through the tree once more.
 */
static __always_inline struct sk_buff *first_packet(struct Qdisc *sch, u32 leaf, u64 now, bool sent,
						    bool alone)
{
	struct hsfq_node *n = hsfq_node(&queue, leaf);
	u32 slot = alone ? queue.alone : hsfq_pop(&queue, leaf);
	u32 bytes = hsfq_packet(&queue, slot)->bytes;
	u64 waited = now - hsfq_packet(&queue, slot)->since;
	struct packet_slot *at = bpf_map_lookup_elem(&packets, &slot);
	struct sk_buff *skb = NULL;

	/* CoDel has to see each packet */
	if (!drop_old || !codel_drops(&n->codel, waited, now, target_ns, !n->first))
		sent = true;
	if (at)
		skb = bpf_kptr_xchg(&at->skb, skb);
	if (alone)
		hsfq_charge_alone(&queue, leaf, slot, sent && skb, now);
	else
		hsfq_charge(&queue, leaf, slot, sent && skb, now);
	hsfq_free(&queue, slot);
	sch->q.qlen--;
	sch->qstats.backlog -= bytes;
	if (!skb)
		return NULL;
	if (sent) {
		shaper_sent(&link, bytes, now);
		bpf_qdisc_bstats_update(sch, skb);
		return skb;
	}
	sch->qstats.drops++;
	bpf_kfree_skb(skb);
	return NULL;
}

SEC("struct_ops/aplomb_net_dequeue")
struct sk_buff *BPF_PROG(aplomb_net_dequeue, struct Qdisc *sch)
{
	struct sk_buff *skb;
	u64 now;
	u32 k;

	/* the kernel asks for one more than there are */
	if (!sch->q.qlen)
		return NULL;
	now = bpf_ktime_get_ns();
	if (hsfq_late(&queue))
		hsfq_release(&queue, now);
	if (!shaper_is_open(&link, now)) {
		wait_until(sch, hsfq_first(&queue) ? link.next : hsfq_late(&queue));
		return NULL;
	}
	/* most packets: not by the loop, which costs more than it does for one */
	if (queue.alone) {
		skb = first_packet(sch, queue.leaf_of_alone, now, false, true);
		if (skb)
			return skb;
	}
	bpf_for(k, 0, DROPS_AT_ONCE + 1) {
		u32 leaf = hsfq_first(&queue);

		if (!leaf)
			break;
		skb = first_packet(sch, leaf, now, k == DROPS_AT_ONCE, false);
		if (skb)
			return skb;
	}
	wait_until(sch, hsfq_late(&queue));
	return NULL;
}

/* Only the root of the one interface that it was loaded for, and only once. */
SEC("struct_ops/aplomb_net_init")
int BPF_PROG(aplomb_net_init, struct Qdisc *sch, struct nlattr *arg, struct netlink_ext_ack *extack)
{
	if (sch->parent != TC_H_ROOT || sch->dev_queue->dev->ifindex != interface)
		return -EINVAL;
	if (__sync_val_compare_and_swap(&owner, 0, (u64)sch))
		return -EBUSY;
	device = (u64)sch->dev_queue->dev;
	forget_all();
	return 0;
}

/* The interface goes down, or the qdisc is removed: no packet may stay. */
SEC("struct_ops/aplomb_net_reset")
void BPF_PROG(aplomb_net_reset, struct Qdisc *sch)
{
	u32 slot;

	if (owner != (u64)sch)
		return;
	bpf_for(slot, 1, HSFQ_PACKETS) {
		struct packet_slot *at;
		struct sk_buff *skb = NULL;

		if (slot > queue.fresh)
			break;
		at = bpf_map_lookup_elem(&packets, &slot);
		if (at)
			skb = bpf_kptr_xchg(&at->skb, skb);
		if (skb)
			bpf_kfree_skb(skb);
	}
	forget_all();
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
}

/* The kernel calls it also if init refused @sch. */
SEC("struct_ops/aplomb_net_destroy")
void BPF_PROG(aplomb_net_destroy, struct Qdisc *sch)
{
	if (__sync_val_compare_and_swap(&owner, (u64)sch, 0) == (u64)sch)
		device = 0;
}

struct net_set_args {
	u64 domain; /* a cgroup's id, or a queue's */
	u64 rate;   /* its ceiling, bytes a second; 0: none */
	u32 weight; /* 1 to HSFQ_MAX_WEIGHT */
	s32 result; /* 0, or -errno */
};

/*
 * Sets weight and ceiling of a domain, or the weight of a queue. They count from its next packet
 * on.
 */
SEC("syscall")
int aplomb_net_set(struct net_set_args *args)
{
	struct net_setting setting = { .rate = args->rate, .weight = args->weight };
	u64 domain = args->domain;
	struct hsfq_node *n;
	u32 node;

	args->result = -EINVAL;
	if (!setting.weight || setting.weight > HSFQ_MAX_WEIGHT)
		return 0;
	args->result = 0;
	if (setting.rate || setting.weight != HSFQ_WEIGHT)
		args->result = bpf_map_update_elem(&net_settings, &domain, &setting, 0);
	else
		bpf_map_delete_elem(&net_settings, &domain);
	node = find_node(domain, is_queue(domain) ? FLOW_OWN : FLOW_INNER);
	if (!node || args->result)
		return 0;
	n = hsfq_node(&queue, node);
	n->weight = setting.weight;
	hsfq_set_ceiling(&queue, node, setting.rate);
	return 0;
}

struct net_select_args {
	u64 domain; /* a cgroup's id */
	u64 queue;  /* a queue's id; 0: selects nothing any more */
	u32 kind;   /* SELECT_MARK or SELECT_PRIORITY */
	u32 value;
	s32 result; /* 0, or -errno */
	u32 unused;
};

/* Some packets of a domain go to a queue of it. User space calls it once at a time. */
SEC("syscall")
int aplomb_net_select(struct net_select_args *args)
{
	struct selector key = { .domain = args->domain, .kind = args->kind, .value = args->value };
	u64 domain = args->domain;
	u32 node;

	args->result = -EINVAL;
	if (!domain || (key.kind != SELECT_MARK && key.kind != SELECT_PRIORITY) ||
	    (args->queue && !is_queue(args->queue)))
		return 0;
	args->result = select_queue(&key, args->queue);
	/*
	 * Not taken back: the node may be another domain's by now, which has selectors. One that
	 * has none any more costs a look-up for each packet.
	 */
	node = find_node(domain, FLOW_INNER);
	if (node && args->queue)
		set_has_selectors(node, true);
	return 0;
}

SEC(".struct_ops.link")
struct Qdisc_ops aplomb_net = {
	.enqueue = (void *)aplomb_net_enqueue,
	.dequeue = (void *)aplomb_net_dequeue,
	.init = (void *)aplomb_net_init,
	.reset = (void *)aplomb_net_reset,
	.destroy = (void *)aplomb_net_destroy,
	.id = "aplomb",
};
