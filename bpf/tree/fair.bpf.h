/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tree/fair.bpf.h - all of the fair layer.
 */
#ifndef APLOMB_FAIR_BPF_H
#define APLOMB_FAIR_BPF_H

#include "tree/dispatch.bpf.h"
#include "tree/enqueue.bpf.h"
#include "tree/run.bpf.h"

#endif /* APLOMB_FAIR_BPF_H */
