#include "cache/store/rocks_options.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <string_view>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace cache {

using common::cat;

namespace {

constexpr std::array<const char*, kFamilyCount> kFamilyNames = {
    "default", "plans", "kernels", "measurements", "negatives", "jobs"};

// Keeps RocksDB's LOG file out of the directory and its troubles in the process's own log.
class QuietLogger final : public rocksdb::Logger {
 public:
  QuietLogger() : Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void LogHeader(const char*, va_list) override {}
  void Logv(const char* format, va_list arguments) override {
    char line[512];
    std::vsnprintf(line, sizeof line, format, arguments);
    std::string_view text(line);
    // Dropped log records are lost writes; the other warnings describe ordinary work.
    bool loss = text.find("dropping") != std::string_view::npos ||
                text.find("orruption") != std::string_view::npos;
    common::log(loss ? common::LogLevel::kWarning : common::LogLevel::kDebug, cat("store: ", text));
  }
};

rocksdb::ColumnFamilyOptions family_options(Family family,
                                            const rocksdb::BlockBasedTableOptions& table) {
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.write_buffer_size = (family == Family::kKernels ? size_t{16} : size_t{4}) << 20;
  options.compression = rocksdb::kNoCompression;
  if (family == Family::kKernels || family == Family::kJobs) {
    auto supported = rocksdb::GetSupportedCompressions();
    if (std::count(supported.begin(), supported.end(), rocksdb::kLZ4Compression) != 0) {
      options.compression = rocksdb::kLZ4Compression;
    }
  }
  // Tables that are mostly tombstones are rewritten early, so that removed entries leave the disk.
  options.table_properties_collector_factories.push_back(
      rocksdb::NewCompactOnDeletionCollectorFactory(128, 64, 0.25));
  return options;
}

}  // namespace

const char* family_name(Family family) { return kFamilyNames[static_cast<size_t>(family)]; }

rocksdb::DBOptions database_options(bool read_only, bool mended) {
  rocksdb::DBOptions options;
  // What a reader takes for damage may be a record that is being written.
  using Recovery = rocksdb::WALRecoveryMode;
  options.wal_recovery_mode = read_only ? Recovery::kPointInTimeRecovery
                              : mended  ? Recovery::kSkipAnyCorruptedRecords
                                        : Recovery::kTolerateCorruptedTailRecords;
  options.create_if_missing = !read_only;
  options.create_missing_column_families = !read_only;
  options.info_log = std::make_shared<QuietLogger>();
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  // Everything below keeps opening at a few milliseconds: no scan of the tables, no statistics, no
  // flush of a replayed log.
  options.skip_stats_update_on_db_open = true;
  options.skip_checking_sst_file_sizes_on_db_open = true;
  options.avoid_flush_during_recovery = true;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.max_total_wal_size = uint64_t{16} << 20;
  options.max_file_opening_threads = 2;
  // All tables stay open, so that a reader survives a writer's deletions.
  options.max_open_files = -1;
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> family_descriptors(size_t block_cache_bytes) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(block_cache_bytes, 2);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t i = 0; i < kFamilyCount; ++i) {
    families.emplace_back(family_name(static_cast<Family>(i)),
                          family_options(static_cast<Family>(i), table));
  }
  return families;
}

}  // namespace cache
