/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _HOST_LINUX_BITS_H
#define _HOST_LINUX_BITS_H

#define BIT_ULL(nr) (1ULL << (nr))

#endif
