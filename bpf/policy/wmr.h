/* SPDX-License-Identifier: GPL-2.0 */
/*
 * wmr.h - EDF-WMR: a reservation that fits on no single CPU is split over several, in windows.
 *
 * Source: Kato, Ishikawa and Rajkumar, section 5 and Fig. 5 (EDF-WM: Kato, Yamasaki, Ishikawa
 * 2009).
 *
 * 1. Why. Three movies of 61 % do not fit on two CPUs if each stays on one: 1.22 > 1. Run by global
 *    EDF, a few long jobs let short ones miss at a total of little more than one CPU (Dhall and
 *    Liu). So most reservations stay on one CPU, where EDF is perfect, and only those that fit
 *    nowhere migrate, at set times, so that each CPU can be checked by itself.
 *
 * 2. Model. A period of P is cut into n windows of P/n. In window x the server is on its x-th CPU,
 *    with a budget Q'_x and the window's end for a deadline. To that CPU it is a sporadic task that
 *    needs Q'_x within P/n, once in P; to itself it has Q'_1 + .. + Q'_n = Q in each P, never at
 *    two places at once.
 *
 *        CPU 0   |== Q'_1 ==......|                               |== Q'_1 ==
 *        CPU 1                    |...== Q'_2 ==..|
 *        CPU 2                                    |== Q'_3 ==.....|
 *                release         P/3            2P/3          release + P
 *
 *    A budget that is used up early does not migrate early ("strict postponement"): the server
 *    waits for its next window, on this CPU, where it may use what others leave (fcbs.h).
 *
 * 3. Control: wmr_wake, wmr_assign in place of edf_wake, edf_assign. A server that sleeps within
 *    its window keeps nothing for later: sleeping counts as running there (else its work comes in a
 *    bunch before the window's end, which no other task on that CPU was checked against); and its
 *    next period begins no earlier than P after the last, at a wake-up. In each window it gets Q'_x
 *    less the time it slept in it.
 *
 *    On a CPU with windows every guaranteed server is controlled so, also one that is not split (n
 *    = 1). The wake rule of edf.h lets a job that slept have the rest of its budget in less than a
 *    period, at no more than its bandwidth; but what makes room for a window is that a job demands
 *    nothing in an interval shorter than its period (crates/policy/src/wmr has the example). Those
 *    admitted by load may keep the wake rule: they are left out of what may be promised, as a
 *    bandwidth, which is what that rule promises.
 *
 * 4. Admission. dbf(L), what tasks can demand in any L ns, must not exceed L (Baruah et al.). The
 *    paper checks L at deadlines only, with the staircase floor((L - D)/P) + 1; between its steps
 *    that lets in sets that miss (crates/policy/src/wmr has one). Here each of the first WMR_STEPS
 *    steps of each staircase is checked, and after them it is replaced by the straight line on top
 *    of it (Albers and Slomka 2004; Fisher, Baker and Baruah 2006):
 *
 *        dbf*(L) = Q' (floor((L - D)/P) + 1) for D <= L < D + (WMR_STEPS - 1) P, before that 0
 *                  Q' (1 + (L - D)/P)        from there on
 *
 *    What is free, L - sum dbf*(L), falls at steps only, and after the last one rises while the
 *    bandwidths add up to no more than the CPU: checking each step once is enough. For tasks with D
 *    = P it is the exact test, sum Q/P <= 1. Where a task goes: reserved/room.bpf.h 2.
 *
 *    Why 8 steps: with the line alone a second window of 20.5 ms beside a movie of 25:41 has 10.7
 *    ms free, with 2 steps 12.8, with 8 steps 15.1, exactly 16; a third movie needs two of 12.5. Of
 *    400 random sets of 90 % load on 4 CPUs, tasks of 10 to 100 %, 43 % are let in with one step,
 *    56 with 2, 62 with 4, 66 with 8 or 16.
 *
 * All roundings are against the newcomer, so that their sum admits no task too many.
 */
#ifndef APLOMB_POLICY_WMR_H
#define APLOMB_POLICY_WMR_H

#include "edf.h"

/* Guaranteed reservations, or parts of them, on one CPU; one more is refused there. */
#define WMR_MEMBERS 32
/* Steps of each staircase that are counted one by one. */
#define WMR_STEPS 8
/* A part below this is not worth its migration, ns. */
#define WMR_LEAST_NS (200 * NSEC_PER_USEC)

/*
 * A reservation is split into as many windows of at least this as there are CPUs; into fewer, or
 * shorter ones, if it does not fit so. Trade: a migration costs some 50 us with its cold caches.
 * But where a window begins, that CPU's own task waits for Q'_x, and what it needs beyond its
 * budget comes that much later. Five movies started together on 4 CPUs (25:41, frames to 45 ms):
 * the first CPU's movie falls to 21 frames in its worst second beside two windows of 20 ms, to 23
 * beside four of 10, and 293 frames in all are late, not 826.
 */
#define WMR_WINDOW_NS (10 * NSEC_PER_MSEC)

/*
 * If more than this part of the CPUs is promised, a reservation is split into as few windows as
 * possible. Many take from the room of many CPUs, and less is admitted. Trade: with less, the rule
 * above holds for fewer; with more, many windows use up the room before. (16 CPUs: with 80 % 24
 * movies of 25:41 are admitted, 22 if there are always many windows; of 100 random sets of 90 %
 * load, tasks of 50 to 100 %, 55 and 33, and 64 if there are never. Six movies on 4 CPUs fit either
 * way: 1,952 of their frames are late, not 1,822.)
 */
#define WMR_CROWDED_PPM 800000

/*
 * What is left of a budget at its period's end for the time that migrations took is no missed
 * deadline, ns.
 */
#define WMR_SLIP_NS (100 * NSEC_PER_USEC)

/* What a CPU has promised: Q' within D, once in P. */
struct wmr_member {
	u64 runtime; /* Q', ns */
	u64 window;  /* D, ns: P/n; P if it is not split */
	u64 period;  /* P, ns, >= 1 ms */
	u64 slot;    /* whose it is */
};

struct wmr_roster {
	struct wmr_member member[WMR_MEMBERS];
	u32 members;
	u32 pad;
};

/*
 * --- run time
 * ----------------------------------------------------------------------------------------
 */

/* Window @x of the period that began at @w->release. */
static inline void wmr_enter(struct wmr_split *w, struct edf_server *s, u32 x)
{
	u64 length = w->parts ? s->period / w->parts : s->period;

	if (x >= WMR_PARTS)
		x = 0;
	w->window = x;
	s->start = w->release + x * length;
	s->deadline = x + 1 < w->parts ? s->start + length : w->release + s->period;
	s->budget = (s64)w->runtime[x];
	s->slept = 0;
	s->late = 0;
}

/* A period begins now, with a full budget. The task is awake; if it is not, wmr_sleep() follows. */
static inline void wmr_release(struct wmr_split *w, struct edf_server *s, u64 now)
{
	w->release = now;
	w->slept_at = TIME_NEVER;
	wmr_enter(w, s, 0);
}

/* The window of the current period that @now, before its end, is in. */
static inline u32 wmr_window_at(const struct wmr_split *w, const struct edf_server *s, u64 now)
{
	u64 length = w->parts ? s->period / w->parts : s->period;
	u64 x = length ? (now - w->release) / length : 0;

	return x < w->parts ? (u32)x : w->parts - 1;
}

/* The task goes to sleep, with the last of its threads; after edf_charge(). */
static inline void wmr_sleep(struct wmr_split *w, const struct edf_server *s, u64 now)
{
	w->slept_at = now;
	w->kept = s->budget;
}

/*
 * The task wakes up, with the first of its threads; followed by wmr_assign().
 *
 * A period that began while it slept, after it had used up the one before, is as good as new: it
 * begins now.
 */
static inline void wmr_wake(struct wmr_split *w, struct edf_server *s, u64 now)
{
	u64 slept_at = w->slept_at;
	s64 left;

	if (slept_at == TIME_NEVER)
		return; /* another thread was awake */
	if (!time_before(now, w->release + s->period) ||
	    (!time_before(now, w->release) && !time_before(w->release, slept_at))) {
		wmr_release(w, s, now);
	} else if (!time_before(now, s->start)) { /* else it waits for its next window as before */
		if (!time_before(now, s->deadline))
			wmr_enter(w, s, wmr_window_at(w, s, now));
		if (time_before(s->start, slept_at))
			left = w->kept - (s64)(now - slept_at);
		else
			left = s->budget -
			       (s64)(now - s->start); /* what was kept was another window's */
		if (left < s->budget)
			s->budget = left > 0 ? left : 0; /* asleep is no debt */
	}
	w->slept_at = TIME_NEVER;
	s->slept = 1;
}

/*
 * In place of edf_assign(): the next window, or period, if the current one is over by budget or by
 * time.
 */
static inline enum edf_change wmr_assign(struct wmr_split *w, struct edf_server *s, u64 now)
{
	bool had_budget = s->budget > 0;
	s64 debt = s->budget < 0 ? s->budget : 0;
	u64 end = w->release + s->period;
	bool missed = s->budget > (s64)WMR_SLIP_NS && !s->slept && !time_before(now, end);

	if (had_budget && time_before(now, s->deadline))
		return EDF_KEPT;
	if (missed)
		w->kept = s->budget;
	if (time_before(now, s->deadline) && w->window + 1 < w->parts) {
		wmr_enter(w, s, w->window + 1);
	} else if (time_before(now, end) && !time_before(now, s->deadline)) {
		wmr_enter(w, s, wmr_window_at(w, s, now));
	} else {
		w->release = time_before(now, end + s->period) ? end : now;
		if (s->slept && time_before(w->release, now))
			w->release = now;
		wmr_enter(w, s, 0);
	}
	s->budget += debt;
	if (s->budget <= 0)
		s->budget = 1;
	if (missed)
		return EDF_MISSED;
	return had_budget ? EDF_RENEWED : EDF_EXHAUSTED;
}

/*
 * --- admission
 * ---------------------------------------------------------------------------------------
 */

/*
 * dbf*(@length) of one member, ns. Past the last step what is more than whole periods is in units
 * of us, where 64 bits would not hold the product in ns, and rounded up.
 */
static inline u64 wmr_demand(const struct wmr_member *m, u64 length)
{
	u64 jobs, rest;

	if (length < m->window)
		return 0;
	rest = length - m->window;
	jobs = rest / m->period + 1;
	rest -= (jobs - 1) * m->period;
	if (jobs < WMR_STEPS || !rest)
		return jobs * m->runtime;
	return jobs * m->runtime + (rest / 1000 + 1) * m->runtime / (m->period / 1000) + 1;
}

/* What is free at @length for newcomer @n: the most Q' with dbf*(length) in it, ns. */
static inline u64 wmr_room_at(const struct wmr_roster *r, const struct wmr_member *n, u64 length,
			      u64 most_ppm)
{
	u64 room = length / 1000 * most_ppm / 1000, taken = 0, jobs, rest;
	u32 i;

	policy_for(i, 0, WMR_MEMBERS)
	{
		if (i >= r->members)
			break;
		taken += wmr_demand(&r->member[i], length);
	}
	if (taken >= room)
		return 0;
	room -= taken;
	rest = length - n->window;
	jobs = rest / n->period + 1;
	rest -= (jobs - 1) * n->period;
	if (jobs < WMR_STEPS || !rest)
		return room / jobs;
	return room * (n->period / 1000) / ((jobs * n->period + rest) / 1000 + 1);
}

/* Bandwidth of one member, ppm, rounded up. */
static inline u64 wmr_bandwidth(u64 runtime, u64 period)
{
	return (runtime * PPM + period - 1) / period;
}

/* Bandwidth that is promised on this CPU, ppm. */
static inline u64 wmr_promised(const struct wmr_roster *r)
{
	u64 sum = 0;
	u32 i;

	policy_for(i, 0, WMR_MEMBERS)
	{
		if (i >= r->members)
			break;
		sum += wmr_bandwidth(r->member[i].runtime, r->member[i].period);
	}
	return sum;
}

/* Has a member here a window that is shorter than its period? */
static inline bool wmr_windowed(const struct wmr_roster *r)
{
	bool windowed = false;
	u32 i;

	policy_for(i, 0, WMR_MEMBERS)
	{
		if (i < r->members && r->member[i].window < r->member[i].period)
			windowed = true;
	}
	return windowed;
}

/*
 * The most that a newcomer may have here of @window ns, once in @period, ns; 0: nothing.
 * @most_ppm: the part of the CPU that may be promised.
 */
static inline u64 wmr_room(const struct wmr_roster *r, u64 period, u64 window, u64 most_ppm)
{
	struct wmr_member newcomer = { .window = window, .period = period };
	u64 promised = wmr_promised(r), room, at;
	u32 k;

	if (promised >= most_ppm || r->members >= WMR_MEMBERS)
		return 0;
	room = period / 1000 * (most_ppm - promised) / 1000;
	if (window == period && !wmr_windowed(r))
		return room; /* sum Q/P <= 1 is all */
	/*
	 * the steps of the newcomer (i = 0) and of each member; one loop, since the verifier's time
	 * is the product
	 */
	policy_for(k, 0, (WMR_MEMBERS + 1) * WMR_STEPS)
	{
		u32 i = k / WMR_STEPS;
		u64 length = window, every = period;

		if (i > r->members)
			break;
		if (i) {
			length = r->member[(i - 1) % WMR_MEMBERS].window;
			every = r->member[(i - 1) % WMR_MEMBERS].period;
		}
		length += k % WMR_STEPS * every;
		if (length <
		    window) /* before its own first deadline the newcomer demands nothing */
			continue;
		at = wmr_room_at(r, &newcomer, length, most_ppm);
		if (at < room)
			room = at;
	}
	return room;
}

/*
 * Into how many parts to split first, at least 2. @promised_ppm: of @cpus CPUs, with what is to be
 * split.
 */
static inline u32 wmr_first(u64 period, u32 cpus, u64 promised_ppm)
{
	u64 n = period / WMR_WINDOW_NS;

	if (promised_ppm > (u64)cpus * WMR_CROWDED_PPM)
		return 2;
	if (n > cpus)
		n = cpus;
	if (n > WMR_PARTS)
		n = WMR_PARTS;
	return n > 2 ? (u32)n : 2;
}

/* The @i-th number of parts to try, @i from 2: @first and down to 2, then the others upwards. */
static inline u32 wmr_parts(u32 first, u32 i)
{
	return i <= first ? first + 2 - i : i;
}

/* CPU @cpu has @room for a part: keep the @n largest, the largest first. */
static inline void wmr_offer(struct wmr_split *w, u32 n, s32 cpu, u64 room)
{
	u32 i;

	if (room < WMR_LEAST_NS)
		return;
	policy_for(i, 0, WMR_PARTS)
	{
		u64 other_room = w->runtime[i];
		s32 other = w->cpu[i];

		if (i >= n)
			break;
		if (i < w->parts && other_room >= room)
			continue;
		w->runtime[i] = room;
		w->cpu[i] = cpu;
		if (i >= w->parts) {
			w->parts = i + 1;
			break;
		}
		room = other_room;
		cpu = other;
	}
}

/*
 * Are the offers enough for @runtime in @n windows? Then the last part is cut to what is needed.
 * (Equal parts would leave windows on more CPUs, and the sixth movie of 25:41 no room on four.)
 */
static inline bool wmr_complete(struct wmr_split *w, u32 n, u64 runtime)
{
	u32 i;

	if (w->parts != n)
		return false;
	policy_for(i, 0, WMR_PARTS)
	{
		if (i >= n)
			break;
		if (w->runtime[i] > runtime)
			w->runtime[i] = runtime;
		runtime -= w->runtime[i];
	}
	return !runtime;
}

static inline void wmr_join(struct wmr_roster *r, u64 slot, u64 runtime, u64 window, u64 period)
{
	if (r->members >= WMR_MEMBERS)
		return; /* wmr_room() had nothing for it */
	r->member[r->members] = (struct wmr_member){
		.runtime = runtime, .window = window, .period = period, .slot = slot
	};
	r->members++;
}

/* A reservation has one part on a CPU at most. */
static inline void wmr_leave(struct wmr_roster *r, u64 slot)
{
	u32 i, at = WMR_MEMBERS, last = r->members - 1;

	policy_for(i, 0, WMR_MEMBERS)
	{
		if (i >= r->members)
			break;
		if (r->member[i].slot == slot) {
			at = i;
			break;
		}
	}
	if (at >= WMR_MEMBERS || last >= WMR_MEMBERS)
		return;
	r->member[at] = r->member[last];
	r->members = last;
}

#endif /* APLOMB_POLICY_WMR_H */
