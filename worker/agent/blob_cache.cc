#include "worker/agent/blob_cache.h"

namespace worker {

void BlobCache::insert(const common::Digest& digest, common::SharedBytes blob) {
  if (find(digest)) return;
  bytes_ += blob.bytes.size();
  newest_first_.push_front({digest, std::move(blob)});
  places_[digest] = newest_first_.begin();
  while (bytes_ > bytes_max_ && newest_first_.size() > 1) {
    bytes_ -= newest_first_.back().blob.bytes.size();
    places_.erase(newest_first_.back().digest);
    newest_first_.pop_back();
  }
}

common::SharedBytes BlobCache::find(const common::Digest& digest) {
  auto found = places_.find(digest);
  if (found == places_.end()) return {};
  newest_first_.splice(newest_first_.begin(), newest_first_, found->second);
  return found->second->blob;
}

}  // namespace worker
