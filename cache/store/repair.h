// Brings a damaged database back into service: damaged files are set aside in a folder of their
// own, and what can still be read of them goes on being served.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/store/database.h"
#include "common/base/result.h"

namespace cache {

// The folder of a database's damaged files: the latest kQuarantineFilesMax of them.
std::string quarantine_of(const std::string& directory);
uint64_t quarantined_files(const std::string& directory);
inline constexpr size_t kQuarantineFilesMax = 32;

// Whether the file that names the current state is gone, though there is something to name. RocksDB
// would begin anew and remove what it finds.
bool lacks_its_head(const std::string& directory);

// The functions below are for a database that nobody has open.

// Moves tables that are not intact into the quarantine and returns their new paths, each file read
// once. Without any, copies the logs and manifests there, of which one must be damaged then.
common::Result<std::vector<std::string>> set_damage_aside(const std::string& directory);
// Writes the list of a database's tables anew, from the tables and logs that are there. Entries
// that had been removed may come back. Leaves the key kDonorKey in every family.
common::Status rebuild_head(const std::string& directory);
inline constexpr std::string_view kDonorKey{"\0mended", 7};
// Moves everything into the quarantine.
common::Status set_all_aside(const std::string& directory);

// Visits what can be read of a table: everything but the entries of damaged blocks. Logs what is
// lost.
using SalvageVisitor =
    std::function<common::Status(Family family, std::string_view key, std::string_view value)>;
common::Status salvage(const std::string& table, const SalvageVisitor& visit);

}  // namespace cache
