#include "coordinator/service/migration/moved_journals.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/shard/shard.h"
#include "coordinator/service/journal/job_journal.h"
#include "coordinator/service/journal/job_numbers.h"

namespace coordinator::service {

using cache::JobRecord;
using common::cat;
using common::Code;
using common::Digest;
using common::Result;
using common::Status;

namespace {

// The same at each attempt, so that one that was cut off leaves no second journal.
Digest id_of(std::span<const JobRecord> records) {
  common::Hasher hasher;
  hasher.text("moved journal");
  for (const JobRecord& record : records) hasher.u64(record.sequence).text(record.bytes);
  return ShardJournals::as_id(hasher.finish());
}

uint32_t shard_of(const JobRequest& request) {
  return common::shard_of(request.tenant, request.key.graph_hash);
}

bool are_equal(std::span<const JobRecord> some, std::span<const JobRecord> others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                    [](const JobRecord& one, const JobRecord& other) {
                      return one.sequence == other.sequence && one.bytes == other.bytes;
                    });
}

Status check_in_engine(ShardJournals& journals, uint32_t shard, const ShardJournal& journal) {
  LFARM_ASSIGN_OR_RETURN(std::vector<ShardJournal> there, journals.read(shard));
  for (const ShardJournal& one : there) {
    if (one.id == journal.id && are_equal(one.records, journal.records)) return {};
  }
  return common::corrupt(cat("a journal of shard ", shard, " came back from the engine damaged"));
}

// Open jobs of a store by what they are to find.
struct OpenJob {
  farm::JobId id = 0;
  size_t records = 0;
};
struct OpenJobs {
  std::map<Digest, OpenJob> by_place;
  farm::JobId last_id = 0;
};

Result<OpenJobs> open_jobs(cache::Store& store) {
  OpenJobs jobs;
  LFARM_ASSIGN_OR_RETURN(auto last, store.get_named(kLastJobRecord));
  if (last) std::from_chars(last->data(), last->data() + last->size(), jobs.last_id);
  LFARM_ASSIGN_OR_RETURN(JournalListing journals, list_journals(store));
  for (farm::JobId id : journals.closed) jobs.last_id = std::max(jobs.last_id, id);
  for (farm::JobId id : journals.open) {
    jobs.last_id = std::max(jobs.last_id, id);
    LFARM_ASSIGN_OR_RETURN(std::vector<JobRecord> records, store.read_job(journal_name(id)));
    auto journal = parse_journal(id, records);
    if (journal.ok()) jobs.by_place[journal->request.place()] = {id, records.size()};
  }
  return jobs;
}

Status put_in_store(cache::Store& store, const JobRequest& request,
                    std::span<const JobRecord> records) {
  cache::Changes changes;
  journal_copy(changes, request, records);
  changes.named.push_back({kLastJobRecord, cat(request.id)});
  LFARM_RETURN_IF_ERROR(store.commit({&changes, 1}));
  LFARM_ASSIGN_OR_RETURN(JournalledJob journal, read_journal(store, request.id));
  LFARM_ASSIGN_OR_RETURN(JournalledJob source, parse_journal_as(request.id, records));
  bool is_whole = journal.next_record == source.next_record &&
                  journal.results.size() == source.results.size() &&
                  journal.damaged == source.damaged && journal.graph == source.graph;
  if (is_whole) return {};
  return common::corrupt(cat("the journal of job ", request.id, " came back damaged"));
}

}  // namespace

Result<MovedJournals> journals_to_engine(cache::Store& store, Sharding& sharding) {
  MovedJournals counts;
  LFARM_ASSIGN_OR_RETURN(JournalListing journals, list_journals(store));
  for (farm::JobId id : journals.open) {
    LFARM_ASSIGN_OR_RETURN(std::vector<JobRecord> records, store.read_job(journal_name(id)));
    auto journal = parse_journal(id, records);
    Status put = journal.ok() ? Status() : Status(journal.error());
    if (put.ok()) {
      uint32_t shard = shard_of(journal->request);
      ShardJournal there{id_of(records), 0, std::move(records)};
      put = sharding.journals.put(shard, there);
      if (put.ok()) LFARM_RETURN_IF_ERROR(check_in_engine(sharding.journals, shard, there));
    }
    if (!put.ok()) {
      Code code = put.error().code;
      if (code != Code::kCorrupt && code != Code::kUnsupported) return put.error();
      common::log_warning(cat("a job stays where it is: ", put.error().message), {{"job", id}});
      ++counts.left;
      continue;
    }
    LFARM_RETURN_IF_ERROR(remove_journal(store, id));
    ++counts.moved;
  }
  return counts;
}

Result<MovedJournals> journals_to_store(Sharding& sharding, cache::Store& store) {
  MovedJournals counts;
  LFARM_ASSIGN_OR_RETURN(OpenJobs open, open_jobs(store));
  for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
    LFARM_ASSIGN_OR_RETURN(std::vector<ShardJournal> journals, sharding.journals.read(shard));
    for (const ShardJournal& there : journals) {
      auto journal = parse_journal_as(open.last_id + 1, there.records);
      if (!journal.ok()) {
        common::log_warning(
            cat("a job of shard ", shard, " stays where it is: ", journal.error().message));
        ++counts.left;
        continue;
      }
      auto known = open.by_place.find(journal->request.place());
      bool is_new = known == open.by_place.end() || known->second.records < there.records.size();
      if (is_new) {
        LFARM_RETURN_IF_ERROR(put_in_store(store, journal->request, there.records));
        if (known != open.by_place.end()) {
          LFARM_RETURN_IF_ERROR(remove_journal(store, known->second.id));
        }
        open.last_id = journal->request.id;
        open.by_place[journal->request.place()] = {open.last_id, there.records.size()};
      }
      sharding.journals.remove(shard, there);
      ++counts.moved;
    }
  }
  return counts;
}

}  // namespace coordinator::service
