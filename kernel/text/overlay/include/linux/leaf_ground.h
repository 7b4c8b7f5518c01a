/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The leaf policy, asked with the kernel's own types. mm/leaf_ground.c gives
 * the policy's core what it rests on: the leaves of this machine, the file, and
 * what the administrator wants.
 */
#ifndef _LINUX_LEAF_GROUND_H
#define _LINUX_LEAF_GROUND_H

#include <linux/leaf_policy.h>
#include <linux/types.h>

struct file;
struct kobj_attribute;

#ifdef CONFIG_LEAF_POLICY

extern struct kobj_attribute leaf_policy_attr;

bool leaf_policy_enabled(void);
unsigned int leaf_policy_order(void);
struct leaf_ground leaf_ground(const struct file *file);
unsigned long leaf_mmap_align(const struct file *file, unsigned long addr,
			      unsigned long len, loff_t offset,
			      unsigned long flags);
unsigned long leaf_segment_align(const struct file *file,
				 const struct leaf_segment *segment,
				 unsigned long span);

#else

static inline unsigned long leaf_mmap_align(const struct file *file,
					    unsigned long addr,
					    unsigned long len, loff_t offset,
					    unsigned long flags)
{
	return 0;
}

static inline unsigned long
leaf_segment_align(const struct file *file, const struct leaf_segment *segment,
		   unsigned long span)
{
	return 0;
}

#endif /* CONFIG_LEAF_POLICY */

#endif /* _LINUX_LEAF_GROUND_H */
