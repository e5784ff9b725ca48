/* SPDX-License-Identifier: GPL-2.0 */
/*
 * load.h - the load of a CPU by interactive tasks, for admission and revocation.
 *
 * Source: Redline section 6.1.
 *
 * 1. Why. Adding up the C/T of all that runs refuses most of a desktop: specs are generous, and an
 *    editor that reserves 5 % uses 0.1 %. So admission looks at what is really used, accepts a
 *    bounded overload, and load control ends that overload within seconds by revoking the task
 *    that acts least like an interactive one.
 *
 * 2. Model. R_load is the mean of the last four one-second samples of the CPU time that interactive
 *    tasks took by right of their reservations. S_load is the expected load: a launch adds its C/T
 *    at once; what was launched before the second that ends loses half of its distance to R_load.
 *
 * 3. Control. Admit if max(R_load, S_load) + C/T < R_hi. Revoke while R_load > R_max, until the
 *    rest is below R_hi. Reactivate, one a window, where R_load < R_lo.
 *
 * 4. Where we differ. The paper samples all CPU time of interactive tasks. Here they may also run
 *    on spare time without precedence. Such time takes nothing from other reservations and does
 *    not count: a game alone on the machine would be revoked for using idle time. What
 *    background.h makes them give up counts as theirs: they wanted it. S_load stays above the
 *    latest sample too, and does not discount a launch in its first, partial second. In the paper
 *    it decays to R_load alone, which lags by seconds: tasks that use all they reserved (an
 *    interactive fork bomb) look smaller than they are until the window has filled, and more are
 *    let in each second, to 130 % of the CPU; then reservations miss their deadlines.
 *
 * 5. Limit. What real-time tasks and interrupts take of the CPU is not counted here. If they take
 *    more than 1 - R_max, reserved tasks can be short of time without R_load ever exceeding R_max.
 */
#ifndef APLOMB_POLICY_LOAD_H
#define APLOMB_POLICY_LOAD_H

#include "types.h"

/*
 * The observation window: four samples, one a second (section 6.1: smooths bursts, sees overload).
 */
#define LOAD_SAMPLES 4
#define LOAD_SAMPLE_NS NSEC_PER_SEC

struct load {
	u64 sample_ppm[LOAD_SAMPLES];
	u64 r_ppm;     /* R_load */
	u64 s_ppm;     /* S_load */
	u64 fresh_ppm; /* what of S_load was launched since the latest sample; <= s_ppm */
	u32 next;      /* slot of the next sample */
	u32 pad;
};

/* max(R_load, S_load), ppm: what admission compares, and what placement calls the least loaded. */
static inline u64 load_expected(const struct load *l)
{
	return l->r_ppm > l->s_ppm ? l->r_ppm : l->s_ppm;
}

/* Admission: does a task of @bw_ppm fit below @r_hi_ppm? */
static inline bool load_fits(const struct load *l, u64 bw_ppm, u64 r_hi_ppm)
{
	return load_expected(l) + bw_ppm < r_hi_ppm;
}

/* A task of @bw_ppm was launched here. */
static inline void load_launch(struct load *l, u64 bw_ppm)
{
	l->s_ppm += bw_ppm;
	l->fresh_ppm += bw_ppm;
}

/*
 * A task of @bw_ppm, launched @age_s seconds ago, has gone. Of what it had added to S_load above
 * R_load half went each second; the rest is subtracted. Its real use leaves through R_load.
 */
static inline void load_leave(struct load *l, u64 bw_ppm, u64 age_s)
{
	u64 part = age_s < 32 ? bw_ppm >> age_s : 0;
	u64 floor = l->s_ppm < l->r_ppm ? l->s_ppm : l->r_ppm;

	l->s_ppm = l->s_ppm > floor + part ? l->s_ppm - part : floor;
	if (!age_s)
		l->fresh_ppm = l->fresh_ppm > part ? l->fresh_ppm - part : 0;
	if (l->fresh_ppm > l->s_ppm)
		l->fresh_ppm = l->s_ppm;
}

/* One second's sample: interactive tasks took @used_ns of @interval_ns by right. */
static inline void load_sample(struct load *l, u64 used_ns, u64 interval_ns)
{
	u64 sum = 0, latest, settled, floor;
	u32 i;

	if (!interval_ns)
		return;
	latest = used_ns * PPM / interval_ns;
	l->sample_ppm[l->next % LOAD_SAMPLES] = latest;
	l->next = (l->next + 1) % LOAD_SAMPLES;
	for (i = 0; i < LOAD_SAMPLES; i++)
		sum += l->sample_ppm[i];
	l->r_ppm = sum / LOAD_SAMPLES;
	floor = l->r_ppm > latest ? l->r_ppm : latest;
	/* halving: after one window 94 % of a guess has been replaced by what was measured */
	settled = l->s_ppm - l->fresh_ppm;
	if (settled > floor)
		settled = floor + (settled - floor) / 2;
	settled += l->fresh_ppm;
	l->s_ppm = settled > floor ? settled : floor;
	l->fresh_ppm = 0;
}

/*
 * A task that used @use_ppm over the window was revoked: what it used is no longer part of the
 * load. Without this the old samples would make the next second revoke another task for it.
 */
static inline void load_forget(struct load *l, u64 use_ppm)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < LOAD_SAMPLES; i++) {
		l->sample_ppm[i] -= use_ppm < l->sample_ppm[i] ? use_ppm : l->sample_ppm[i];
		sum += l->sample_ppm[i];
	}
	l->r_ppm = sum / LOAD_SAMPLES;
	l->s_ppm -= use_ppm < l->s_ppm ? use_ppm : l->s_ppm;
	if (l->fresh_ppm > l->s_ppm)
		l->fresh_ppm = l->s_ppm;
}

/* CPU time of one server in each second of the window; old seconds fall out when time moves on. */
struct usage {
	u64 second; /* number of the latest second that was written */
	u64 ns[LOAD_SAMPLES];
};

/* A second that is over stays over: the governor may ask for the one before the server's latest. */
static inline void usage_advance(struct usage *u, u64 second)
{
	u64 gone = second - u->second, i;

	if (!time_before(u->second, second))
		return;
	for (i = 0; i < LOAD_SAMPLES; i++)
		if (i < gone)
			u->ns[(u->second + 1 + i) % LOAD_SAMPLES] = 0;
	u->second = second;
}

static inline void usage_add(struct usage *u, u64 second, u64 ns)
{
	usage_advance(u, second);
	u->ns[second % LOAD_SAMPLES] += ns;
}

/* Mean use over the window that ends with @second, ppm. */
static inline u64 usage_ppm(struct usage *u, u64 second)
{
	u64 sum = 0, i;

	usage_advance(u, second);
	for (i = 0; i < LOAD_SAMPLES; i++)
		sum += u->ns[i];
	return sum * PPM / (LOAD_SAMPLES * LOAD_SAMPLE_NS);
}

/*
 * The part of its reservation of @bw_ppm, in ppm, that a server used which was admitted @age_ns ago
 * and whose mean use over the whole window is @use_ppm.
 */
static inline u64 usage_part_ppm(u64 use_ppm, u64 bw_ppm, u64 age_ns)
{
	u64 window_ms = LOAD_SAMPLES * LOAD_SAMPLE_NS / NSEC_PER_MSEC,
	    age_ms = age_ns / NSEC_PER_MSEC;

	if (age_ms < window_ms)
		use_ppm = use_ppm * window_ms / (age_ms ? age_ms : 1);
	return use_ppm * PPM / (bw_ppm ? bw_ppm : 1);
}

#endif /* APLOMB_POLICY_LOAD_H */
