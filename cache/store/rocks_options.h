// Inside cache/store: how its databases are opened, in RocksDB's own types.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <string>
#include <vector>

#include "cache/store/database.h"

namespace cache {

// The name of a family's column family.
const char* family_name(Family family);
// A database's damaged log is an error, unless it is `mended`: then what can be read of it counts.
rocksdb::DBOptions database_options(bool read_only, bool mended = false);
// In the order of Family.
std::vector<rocksdb::ColumnFamilyDescriptor> family_descriptors(size_t block_cache_bytes);

}  // namespace cache
