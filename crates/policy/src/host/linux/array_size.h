/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _HOST_LINUX_ARRAY_SIZE_H
#define _HOST_LINUX_ARRAY_SIZE_H

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif
