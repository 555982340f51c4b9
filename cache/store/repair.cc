#include "cache/store/repair.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/table_properties.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "cache/store/rocks_options.h"
#include "common/base/bytes.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"

namespace cache {

using common::cat;
using common::Result;
using common::Status;
namespace fs = std::filesystem;

namespace {

constexpr size_t kBlockCacheBytes = size_t{1} << 20;
constexpr size_t kShownKeyBytes = 20;

Status failed(const std::string& what, const std::string& path, const std::string& why) {
  return common::unavailable(cat("cannot ", what, " ", path, ": ", why, "; check the disk"));
}

bool is_table(const fs::path& path) { return path.extension() == ".sst"; }
bool is_log(const fs::path& path) { return path.extension() == ".log"; }
bool is_manifest(const fs::path& path) {
  return path.filename().string().rfind("MANIFEST-", 0) == 0;
}

std::vector<fs::path> files_of(const std::string& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The time in front of the name keeps files of several accidents apart, and in order.
std::string kept_name(const std::string& directory, const fs::path& file) {
  std::string when = std::to_string(common::wall_clock_ns());
  return cat(quarantine_of(directory), "/", when, "-", file.filename().string());
}

Result<std::string> keep(const std::string& directory, const fs::path& file, bool is_copy) {
  LFARM_RETURN_IF_ERROR(common::make_directories(quarantine_of(directory)));
  std::string kept = kept_name(directory, file);
  std::error_code error;
  is_copy ? static_cast<void>(fs::copy_file(file, kept, error)) : fs::rename(file, kept, error);
  if (error) return failed("set aside", file.string(), error.message()).error();
  std::vector<fs::path> all = files_of(quarantine_of(directory));
  for (size_t k = 0; k + kQuarantineFilesMax < all.size(); ++k) fs::remove(all[k], error);
  return kept;
}

rocksdb::Options table_options() {
  auto families = family_descriptors(kBlockCacheBytes);
  return {database_options(true), families.front().options};
}

std::string shown(std::string_view key) {
  std::string_view part = key.substr(0, kShownKeyBytes);
  return common::to_hex(common::as_bytes(part)) + (key.size() > kShownKeyBytes ? ".." : "");
}

std::optional<Family> family_called(const std::string& name) {
  for (size_t i = 0; i < kFamilyCount; ++i) {
    if (name == family_name(static_cast<Family>(i))) return static_cast<Family>(i);
  }
  return std::nullopt;
}

// One table in each family, so that a repair knows all families before it reads the logs: entries
// of a family that it does not know would be dropped.
Status make_donors(const std::string& directory) {
  rocksdb::DBOptions options = database_options(false);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  auto status = rocksdb::DB::Open(options, directory, family_descriptors(kBlockCacheBytes),
                                  &handles, &opened);
  if (!status.ok()) return failed("mend with", directory, status.ToString());
  std::unique_ptr<rocksdb::DB> database(opened);
  for (auto* family : handles) {
    if (status.ok()) {
      rocksdb::Slice key(kDonorKey.data(), kDonorKey.size());
      status = database->Put(rocksdb::WriteOptions(), family, key, "");
    }
  }
  if (status.ok()) status = database->Flush(rocksdb::FlushOptions(), handles);
  for (auto* family : handles) {
    database->DestroyColumnFamilyHandle(family).PermitUncheckedError();
  }
  if (status.ok()) status = database->Close();
  return status.ok() ? Status() : failed("mend with", directory, status.ToString());
}

// The highest number in the name of a file.
uint64_t last_number(const std::string& directory) {
  uint64_t last = 0;
  for (const fs::path& file : files_of(directory)) {
    std::string name = file.filename().string();
    size_t digits = std::min(name.find_first_of("0123456789"), name.size());
    uint64_t number = 0;
    std::from_chars(name.data() + digits, name.data() + name.size(), number);
    if (is_table(file) || is_log(file) || is_manifest(file)) last = std::max(last, number);
  }
  return last;
}

// As RocksDB writes it: a repair lists "5.sst" and then opens "000005.sst".
std::string table_name(const std::string& directory, uint64_t number) {
  std::string digits = std::to_string(number);
  constexpr size_t kDigitsMin = 6;
  if (digits.size() < kDigitsMin) digits.insert(0, kDigitsMin - digits.size(), '0');
  return cat(directory, "/", digits, ".sst");
}

Status plant_donors(const std::string& directory) {
  std::string workshop = directory + "/mending";
  std::error_code error;
  fs::remove_all(workshop, error);
  LFARM_RETURN_IF_ERROR(make_donors(workshop));
  uint64_t number = last_number(directory);
  for (const fs::path& file : files_of(workshop)) {
    if (!is_table(file)) continue;
    fs::rename(file, table_name(directory, ++number), error);
    if (error) return failed("mend with", file.string(), error.message());
  }
  fs::remove_all(workshop, error);
  return {};
}

// Between two keys, as if they were fractions; empty when there is nothing between.
std::string middle(std::string_view low, std::string_view high) {
  size_t size = std::max(low.size(), high.size()) + 1;
  std::string sum(size, '\0');
  unsigned carry = 0;
  for (size_t i = size; i-- > 0;) {
    unsigned both = carry;
    if (i < low.size()) both += static_cast<unsigned char>(low[i]);
    if (i < high.size()) both += static_cast<unsigned char>(high[i]);
    sum[i] = static_cast<char>(both & 0xff);
    carry = both >> 8;
  }
  for (char& byte : sum) {
    unsigned both = (carry << 8) | static_cast<unsigned char>(byte);
    byte = static_cast<char>(both >> 1);
    carry = both & 1;
  }
  return sum > low && sum < high ? sum : std::string();
}

class Salvage {
 public:
  Salvage(rocksdb::SstFileReader& table, Family family, const SalvageVisitor& visit)
      : table_(table), family_(family), visit_(visit) {}

  Status run() {
    seek("");
    while (true) {
      for (; cursor_->Valid(); cursor_->Next()) {
        ++taken_;
        last_ = cursor_->key().ToString();
        LFARM_RETURN_IF_ERROR(visit_(family_, {cursor_->key().data(), cursor_->key().size()},
                                     {cursor_->value().data(), cursor_->value().size()}));
      }
      if (cursor_->status().ok()) return {};
      skip_damage();
    }
  }
  uint64_t taken() const { return taken_; }
  const std::string& gaps() const { return gaps_; }

 private:
  // With a cursor of its own: one that has met damage may meet it again elsewhere.
  void seek(const std::string& key) {
    cursor_.reset(table_.NewIterator(rocksdb::ReadOptions()));
    cursor_->Seek(key);
  }
  // To the first entry behind the damage. Which keys a damaged block holds is not known, so that
  // this looks for the smallest key from which the cursor finds its way.
  void skip_damage() {
    std::string low = last_, high(kHighestKeyBytes, '\xff'), found = high;
    std::string between = middle(low, high);
    for (; !between.empty() && between.size() < 2 * kHighestKeyBytes; between = middle(low, high)) {
      seek(between);
      bool finds_its_way = cursor_->Valid() || cursor_->status().ok();
      (finds_its_way ? high : low) = between;
      if (cursor_->Valid()) found = cursor_->key().ToString();
    }
    seek(found);
    gaps_ +=
        cat(gaps_.empty() ? "" : ", ", "between ", last_.empty() ? "its beginning" : shown(last_),
            " and ", cursor_->Valid() ? shown(found) : "its end");
    last_ = found;
  }
  static constexpr size_t kHighestKeyBytes = 300;
  rocksdb::SstFileReader& table_;
  std::unique_ptr<rocksdb::Iterator> cursor_;
  const Family family_;
  const SalvageVisitor& visit_;
  std::string last_;  // key that was passed
  std::string gaps_;
  uint64_t taken_ = 0;
};

}  // namespace

std::string quarantine_of(const std::string& directory) { return directory + "/quarantine"; }

uint64_t quarantined_files(const std::string& directory) {
  std::error_code error;
  fs::directory_iterator entries(quarantine_of(directory), error);
  return error ? 0 : static_cast<uint64_t>(std::distance(begin(entries), end(entries)));
}

bool lacks_its_head(const std::string& directory) {
  if (fs::exists(directory + "/CURRENT")) return false;
  std::vector<fs::path> files = files_of(directory);
  return std::any_of(files.begin(), files.end(),
                     [](const fs::path& file) { return is_table(file) || is_manifest(file); });
}

Result<std::vector<std::string>> set_damage_aside(const std::string& directory) {
  std::vector<std::string> tables;
  std::vector<fs::path> files = files_of(directory);
  for (const fs::path& file : files) {
    if (!is_table(file)) continue;
    rocksdb::SstFileReader reader(table_options());
    auto status = reader.Open(file.string());
    if (status.ok()) status = reader.VerifyChecksum();
    if (status.ok()) continue;
    // Of other troubles the table may be innocent.
    bool is_damaged = status.IsCorruption() || status.IsNotSupported() ||
                      status.IsInvalidArgument() ||
                      status.ToString().find("Input/output error") != std::string::npos;
    if (!is_damaged) return failed("read", file.string(), status.ToString()).error();
    LFARM_ASSIGN_OR_RETURN(std::string kept, keep(directory, file, false));
    common::log_error(cat("store: table ", file.string(), " is damaged (", status.ToString(),
                          "), it is kept as ", kept));
    tables.push_back(std::move(kept));
  }
  if (!tables.empty()) return tables;
  for (const fs::path& file : files) {
    if (!is_log(file) && !is_manifest(file)) continue;
    LFARM_RETURN_IF_ERROR(keep(directory, file, true));
  }
  return tables;
}

Status rebuild_head(const std::string& directory) {
  LFARM_RETURN_IF_ERROR(plant_donors(directory));
  auto status = rocksdb::RepairDB(directory, database_options(false, true),
                                  family_descriptors(kBlockCacheBytes));
  // Logs that have become tables, and tables that are none.
  std::string lost = directory + "/lost";
  for (const fs::path& file : files_of(lost)) {
    if (is_table(file)) LFARM_RETURN_IF_ERROR(keep(directory, file, false));
  }
  std::error_code error;
  fs::remove_all(lost, error);
  if (status.ok()) return {};
  if (status.IsCorruption()) return common::corrupt(cat("cannot mend: ", status.ToString()));
  return failed("mend", directory, status.ToString());
}

Status set_all_aside(const std::string& directory) {
  std::string all = cat(quarantine_of(directory), "/", common::wall_clock_ns(), "-all");
  LFARM_RETURN_IF_ERROR(common::make_directories(all));
  std::error_code error;
  for (const fs::path& file : files_of(directory)) {
    bool is_part = is_table(file) || is_log(file) || is_manifest(file) ||
                   file.filename() == "CURRENT" || file.filename() == "IDENTITY" ||
                   file.filename().string().rfind("OPTIONS-", 0) == 0;
    if (!is_part) continue;
    fs::rename(file, all + "/" + file.filename().string(), error);
    if (error) return failed("set aside", file.string(), error.message());
  }
  common::log_error(cat("store: ", directory, " cannot be mended and begins empty; what was there ",
                        "is kept in ", all));
  return {};
}

Status salvage(const std::string& table, const SalvageVisitor& visit) {
  rocksdb::SstFileReader reader(table_options());
  auto status = reader.Open(table);
  auto properties = status.ok() ? reader.GetTableProperties() : nullptr;
  auto family = properties ? family_called(properties->column_family_name) : std::nullopt;
  if (!family) {
    common::log_error(cat("store: nothing can be read of ", table));
    return {};
  }
  Salvage rescue(reader, *family, visit);
  LFARM_RETURN_IF_ERROR(rescue.run());
  common::log_error(cat("store: of ", properties->num_entries, " ", properties->column_family_name,
                        " entries in ", table, " ", rescue.taken(), " were read, lost are those ",
                        rescue.gaps()));
  return {};
}

}  // namespace cache
