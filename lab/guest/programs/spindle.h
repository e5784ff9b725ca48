/* SPDX-License-Identifier: GPL-2.0 */
/*
 * spindle.h - how long a rotating disk takes for a request. Only arithmetic: rotating.c serves the
 * requests.
 *
 * After C. Ruemmler and J. Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3),
 * 1994: seek, then rotation, then transfer; a buffer that reads ahead. Simplified:
 *
 * - One head. The distance of a seek counts as a part of the whole stroke: the small image stands
 *   for the whole disk. A seek takes SEEK_LEAST_NS + b * sqrt(distance). The mean of sqrt(distance)
 *   between two random places is 8/15, so b = (mean - SEEK_LEAST_NS) * 15 / 8. The paper has a
 *   second, linear part for long seeks; here there is none. Within a track there is no seek.
 * - The platter turns by the clock, so a request waits until its first byte comes under the head.
 *   All tracks hold the same: the bytes of one turn at the media rate. The skew of the tracks hides
 *   the switch to the next one: what begins where the last request ended, in time, does not wait.
 * - After a read the disk reads on, until another request needs the head or READ_AHEAD bytes lie in
 *   the buffer. A read that begins exactly where the last one ended gets what is in the buffer at
 *   the interface's rate, and the rest as it passes under the head. If the buffer was full, the
 *   disk had stopped, and goes on at the next turn. No other read is served from the buffer.
 * - No write cache: a write takes its mechanical time, so a flush has nothing to do.
 */
#ifndef SPINDLE_H
#define SPINDLE_H

#include <math.h>

#include "lib.h"

#define SEEK_LEAST_NS 800000.0 /* from a track to the next */
#define READ_AHEAD (1 << 20)
#define INTERFACE_NS_PER_BYTE (1.0 / 0.6) /* SATA's 600 MB a second */
#define SECTOR 512

struct spindle {
	int64_t size; /* bytes */
	int64_t turn_ns;
	double ns_per_byte; /* at the media rate */
	double seek_ns;     /* b: a seek over the whole stroke takes SEEK_LEAST_NS more */
	int64_t head;       /* where the last request ended */
	int64_t free;       /* when that was */
	/*
	 * The last read: @since is when @from passed under the head. The disk has read on from
	 * there; a read that continues it begins at @next. @next is -1 after a write.
	 */
	int64_t next, from, since;
};

static inline struct spindle spindle_new(int64_t size, int64_t rpm, int64_t mean_seek_ns,
					 int64_t bytes_per_s)
{
	return (struct spindle){
		.size = size,
		.turn_ns = 60 * NS_PER_S / rpm,
		.ns_per_byte = 1e9 / (double)bytes_per_s,
		.seek_ns = ((double)mean_seek_ns - SEEK_LEAST_NS) * 15 / 8,
		.next = -1,
	};
}

static inline int64_t media_ns(const struct spindle *s, int64_t bytes)
{
	return llrint((double)bytes * s->ns_per_byte);
}

static inline int64_t seek_ns(const struct spindle *s, int64_t from, int64_t to)
{
	int64_t distance = from < to ? to - from : from - to;

	if (!distance || media_ns(s, from) / s->turn_ns == media_ns(s, to) / s->turn_ns)
		return 0;
	return llrint(SEEK_LEAST_NS + s->seek_ns * sqrt((double)distance / (double)s->size));
}

/*
 * When @offset first passes under the head, from @start on. What has passed by less than a sector
 * is not missed: the times of a stream of requests are rounded to nanoseconds.
 */
static inline int64_t under_head(const struct spindle *s, int64_t offset, int64_t start)
{
	int64_t wait = (media_ns(s, offset) - start) % s->turn_ns;

	if (wait < 0)
		wait += s->turn_ns;
	if (s->turn_ns - wait < media_ns(s, SECTOR))
		wait -= s->turn_ns;
	return start + wait;
}

/* When a request is done that the disk begins at @start, which is not before @free. */
static inline int64_t spindle_access(struct spindle *s, int write, int64_t offset, int64_t bytes,
				     int64_t start)
{
	int64_t end = offset + bytes, done, buffered;

	if (!write && offset == s->next) {
		int64_t full = s->next + READ_AHEAD;

		if (s->since + media_ns(s, full - s->from) < start) {
			s->from = full;
			s->since = under_head(s, full, start);
		}
		done = s->since + media_ns(s, end - s->from);
		buffered = start + llrint((double)bytes * INTERFACE_NS_PER_BYTE);
		if (done < buffered)
			done = buffered;
	} else {
		s->from = offset;
		s->since = under_head(s, offset, start + seek_ns(s, s->head, offset));
		done = s->since + media_ns(s, bytes);
	}
	s->next = write ? -1 : end;
	s->head = end;
	s->free = done;
	return done;
}

#endif /* SPINDLE_H */
