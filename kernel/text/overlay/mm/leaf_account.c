// SPDX-License-Identifier: GPL-2.0-only
/*
 * What earlier reads of a file's text proved, kept from fault to fault.
 *
 * By file and not by who has it open: a program that is started a hundred
 * times is the same text. It costs nothing per file or inode, for it is kept
 * in a table of fixed size, a few KB in all. A file whose place another one
 * takes begins anew, as does one that has left memory, and with it what its
 * reads brought: what is lost is a hint, worth 2M of trust.
 */
#include <linux/exec_leaf.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/sizes.h>

#define LEAF_PLACE_BITS	9

/* A file that has no more than this in memory was opened and not much else. */
#define LEAF_NOTHING	(SZ_256K >> PAGE_SHIFT)

struct leaf_place {
	unsigned long ino;
	dev_t dev;
	struct leaf_account account;
};

static struct leaf_place leaf_places[1 << LEAF_PLACE_BITS];

static struct leaf_place *leaf_place_of(const struct inode *inode)
{
	return &leaf_places[hash_long(inode->i_ino + inode->i_sb->s_dev,
				      LEAF_PLACE_BITS)];
}

/**
 * leaf_account_of - the account of a file
 * @inode: the file's
 *
 * No lock: who comes while another file takes the place may see the account of
 * that one.
 *
 * Return: the account; all zeroes for a file without one, or which has next to
 * nothing in memory.
 */
struct leaf_account leaf_account_of(const struct inode *inode)
{
	const struct leaf_place *place = leaf_place_of(inode);

	if (READ_ONCE(inode->i_mapping->nrpages) <= LEAF_NOTHING)
		return (struct leaf_account) { };
	if (READ_ONCE(place->ino) != inode->i_ino ||
	    READ_ONCE(place->dev) != inode->i_sb->s_dev)
		return (struct leaf_account) { };
	return READ_ONCE(place->account);
}

/**
 * leaf_account_keep - keep the account of a file
 * @inode: the file's
 * @account: its account
 */
void leaf_account_keep(const struct inode *inode, struct leaf_account account)
{
	struct leaf_place *place = leaf_place_of(inode);

	WRITE_ONCE(place->ino, inode->i_ino);
	WRITE_ONCE(place->dev, inode->i_sb->s_dev);
	WRITE_ONCE(place->account, account);
}
