/* SPDX-License-Identifier: GPL-2.0 */
/*
 * shaper.h - a link's rate: packets leave no faster than the slowest link behind this one.
 *
 * 1. Why. An order of packets has an effect only where they wait. Behind most machines there is a
 *    modem or a router with a large buffer of its own, and a link slower than the machine's. The
 *    packets would wait there, in the order in which they came. If they leave here a little slower
 *    than that link is, the buffer behind stays empty and the queue is here.
 *
 * 2. Model. A clock says when the next packet may leave. A packet moves it on by its time on the
 *    link: its bytes, and for each begun SHAPER_MTU of them the overhead of the link's frames. A
 *    link that was idle has at most SHAPER_BURST_NS of credit, for timers that come late.
 *
 *        next = max(next, now - burst) + (bytes + overhead * frames) / rate
 *
 * So in any interval of t ns at most rate * (t + burst), and one packet, leave.
 */
#ifndef APLOMB_POLICY_SHAPER_H
#define APLOMB_POLICY_SHAPER_H

#include "types.h"

/* Timers of the kernel are late by 50 us, seldom by 1 ms; more credit is queue in the modem. */
#define SHAPER_BURST_NS NSEC_PER_MSEC
/* Bytes of a frame at most. Of larger packets (segmentation offload) each part is a frame. */
#define SHAPER_MTU 1514

struct shaper {
	u64 rate;     /* bytes a second, at most 2^37; 0: no bound */
	u32 overhead; /* of each frame, bytes */
	u64 next;     /* when the next packet may leave, ns */
};

/* The time of a packet of @bytes on the link, ns. */
static inline u64 shaper_time(const struct shaper *s, u32 bytes)
{
	u64 frames = (bytes + SHAPER_MTU - 1) / SHAPER_MTU;

	if (!s->rate)
		return 0;
	return (bytes + s->overhead * frames) * NSEC_PER_SEC / s->rate;
}

/* May a packet leave at @now? If not, s->next is when one may. */
static inline bool shaper_is_open(const struct shaper *s, u64 now)
{
	return !s->rate || !time_before(now, s->next);
}

/* A packet of @bytes leaves at @now. */
static inline void shaper_sent(struct shaper *s, u32 bytes, u64 now)
{
	if (time_before(s->next, now - SHAPER_BURST_NS))
		s->next = now - SHAPER_BURST_NS;
	s->next += shaper_time(s, bytes);
}

#endif /* APLOMB_POLICY_SHAPER_H */
