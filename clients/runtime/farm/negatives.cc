#include "clients/runtime/farm/negatives.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <vector>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/wire/codec.h"
#include "common/wire/limits.h"

namespace clients {

using common::cat;

namespace {

constexpr size_t kFileBytesMax = common::kTextBytesMax + 64;
// Beyond it the old ones are looked for.
constexpr size_t kFilesMax = 256;

struct Entry {
  int64_t expires_s = 0;
  common::Code code = common::Code::kInternal;
  std::string message;
};

// "expires code\nmessage".
std::optional<Entry> parse(const std::string& text) {
  Entry entry;
  int code = 0;
  const char* end = text.data() + text.size();
  auto expires = std::from_chars(text.data(), end, entry.expires_s);
  if (expires.ec != std::errc() || expires.ptr == end || *expires.ptr != ' ') return std::nullopt;
  auto number = std::from_chars(expires.ptr + 1, end, code);
  if (number.ec != std::errc() || number.ptr == end || *number.ptr != '\n') return std::nullopt;
  if (code < 0 || code > static_cast<int>(common::Code::kInternal)) return std::nullopt;
  entry.code = static_cast<common::Code>(code);
  entry.message = common::clean_text({number.ptr + 1, static_cast<size_t>(end - number.ptr - 1)});
  return entry;
}

}  // namespace

Negatives::Negatives(std::string directory, std::function<int64_t()> wall_s)
    : directory_(std::move(directory)), wall_s_(std::move(wall_s)) {
  if (!wall_s_) wall_s_ = [] { return common::wall_clock_ns() / 1'000'000'000; };
}

std::string Negatives::path_of(const common::Digest& what) const {
  return cat(directory_, "/", what.hex());
}

void Negatives::note(const common::Digest& what, const common::Error& why, int64_t seconds) const {
  if (!common::make_directories(directory_).ok()) return;
  remove_old();
  std::string text = cat(wall_s_() + seconds, " ", static_cast<int>(why.code), "\n", why.message);
  (void)common::write_file_atomic(path_of(what), common::as_bytes(text));
}

std::optional<common::Error> Negatives::find(const common::Digest& what) const {
  auto text = common::read_file(path_of(what), kFileBytesMax);
  if (!text.ok()) return std::nullopt;
  auto entry = parse(*text);
  int64_t now = wall_s_();
  // One that lasts longer than any is of a clock that was set back.
  bool holds = entry && now < entry->expires_s && entry->expires_s - now <= kUnsupportedS;
  if (holds) return common::Error{entry->code, std::move(entry->message)};
  forget(what);
  return std::nullopt;
}

void Negatives::forget(const common::Digest& what) const { ::unlink(path_of(what).c_str()); }

void Negatives::remove_old() const {
  std::vector<common::Digest> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    if (auto what = common::Digest::parse(entry.path().filename().string())) all.push_back(*what);
  }
  if (all.size() < kFilesMax) return;
  for (const common::Digest& what : all) (void)find(what);
}

}  // namespace clients
