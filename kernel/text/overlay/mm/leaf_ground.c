// SPDX-License-Identifier: GPL-2.0-only
/*
 * The leaf policy, asked with the kernel's own types.
 *
 * The policy itself is in leaf_align.c and leaf_policy.c, which know sizes
 * only. Here is what they rest on, and the one switch.
 */
#include <linux/array_size.h>
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/leaf_ground.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <linux/sysfs.h>

#define CREATE_TRACE_POINTS
#include <trace/events/leaf_policy.h>

/* Leaves of this kernel up to a PMD: none that is wider is ever asked for. */
static const u8 leaf_shifts[] = {
	PAGE_SHIFT,
#ifdef CONFIG_ARM64_CONTPTE
	CONT_PTE_SHIFT,
#endif
	PMD_SHIFT,
};

static const struct leaf_table leaf_running = {
	leaf_shifts, ARRAY_SIZE(leaf_shifts)
};

static bool leaf_policy_on = true;

static ssize_t leaf_policy_show(struct kobject *kobj,
				struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(leaf_policy_on));
}

static ssize_t leaf_policy_store(struct kobject *kobj,
				 struct kobj_attribute *attr, const char *buf,
				 size_t count)
{
	bool on;
	int err = kstrtobool(buf, &on);

	if (err)
		return err;
	WRITE_ONCE(leaf_policy_on, on);
	return count;
}

/* /sys/kernel/mm/transparent_hugepage/leaf_policy */
struct kobj_attribute leaf_policy_attr = __ATTR_RW(leaf_policy);

static enum leaf_thp leaf_thp(void)
{
	if (hugepage_global_always())
		return LEAF_THP_ALWAYS;
	return hugepage_global_enabled() ? LEAF_THP_MADVISE : LEAF_THP_NEVER;
}

/**
 * leaf_policy_enabled - may text be read and mapped by wide leaves at all?
 *
 * Return: false if the policy or transparent huge pages are switched off.
 */
bool leaf_policy_enabled(void)
{
	return READ_ONCE(leaf_policy_on) && leaf_thp() != LEAF_THP_NEVER;
}

/**
 * leaf_policy_order - the narrowest leaf of this machine that is not a page
 *
 * Text is mapped in whole blocks of this order at least.
 *
 * Return: its order.
 */
unsigned int leaf_policy_order(void)
{
	return leaf_shifts[1] - PAGE_SHIFT;
}

/**
 * leaf_ground - what the policy rests on, for a file
 * @file: the file
 *
 * Return: the ground for any of the policy's questions.
 */
struct leaf_ground leaf_ground(const struct file *file)
{
	const struct address_space *mapping = file->f_mapping;

	return (struct leaf_ground) {
		.table = &leaf_running,
		.file_size = i_size_read(mapping->host),
		.min_order = mapping_min_folio_order(mapping),
		.max_order = mapping_max_folio_order(mapping),
		.thp = leaf_thp(),
		.enabled = READ_ONCE(leaf_policy_on),
	};
}

static unsigned long leaf_align_bytes(const struct leaf_align_answer *answer)
{
	return answer->shift > PAGE_SHIFT ? 1UL << answer->shift : 0;
}

/**
 * leaf_mmap_align - alignment for a file mapping that may be put anywhere
 * @file: the file, or NULL
 * @addr: what the caller of mmap() asked for
 * @len: bytes to map
 * @offset: file offset to map from
 * @flags: MAP_* of mmap()
 *
 * Only private mappings are asked for, which is how loaders map programs and
 * libraries. Whoever names a place, or the lowest 2G, gets it as ever. So does
 * the kernel's own ELF loader, which knows all segments and asks for itself.
 *
 * Return: the alignment in bytes, modulo which the address is to be congruent
 * to @offset, or 0 if a page's will do.
 */
unsigned long leaf_mmap_align(const struct file *file, unsigned long addr,
			      unsigned long len, loff_t offset,
			      unsigned long flags)
{
	struct leaf_align align = {
		.offset = offset,
		.length = len,
		.space = TASK_SIZE,
	};
	struct leaf_align_answer answer;

	if (!file || addr || (flags & (MAP_FIXED | MAP_32BIT)) ||
	    (flags & MAP_TYPE) != MAP_PRIVATE || current->in_execve)
		return 0;
	align.ground = leaf_ground(file);
	/* To the core, 0 is a size that nobody knows. This file is empty. */
	if (!align.ground.file_size)
		return 0;
	leaf_align_decide(&align, &answer);
	trace_leaf_align(file, &align, &answer);
	return leaf_align_bytes(&answer);
}

/**
 * leaf_segment_align - alignment that one segment of an ELF image asks for
 * @file: the image
 * @segment: the segment, its address relative to the one that is aligned
 * @span: bytes that all segments take in memory
 *
 * The image gets the largest alignment of all its segments; asking for one at
 * a time saves copying the program headers.
 *
 * Return: the alignment in bytes, or 0 if a page's will do.
 */
unsigned long leaf_segment_align(const struct file *file,
				 const struct leaf_segment *segment,
				 unsigned long span)
{
	struct leaf_align align = {
		.ground = leaf_ground(file),
		.offset = segment->offset,
		.length = span,
		.space = TASK_SIZE,
	};
	struct leaf_align_answer answer;

	leaf_align_elf(&align, segment, 1, &answer);
	trace_leaf_align(file, &align, &answer);
	return leaf_align_bytes(&answer);
}
