/* SPDX-License-Identifier: GPL-2.0 */
/*
 * loop.so - code of a user's own in any program that it may execute: LD_PRELOAD=loop.so PROGRAM
 * loops for ever instead of running the program. Needs no library.
 */
__attribute__((constructor)) static void loop(void)
{
	for (;;)
		__asm__ volatile("");
}
