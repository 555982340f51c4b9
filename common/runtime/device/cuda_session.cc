#include "common/runtime/device/cuda_session.h"

namespace common {
namespace {

// Freed memory that is kept for the next user, as a part of all: a candidate's buffers come again
// with the next candidate.
constexpr int64_t kKeptMemoryDivisor = 8;

// The first compute capability whose kernels can wait for earlier ones.
constexpr int kOverlappingMajor = 9;

}  // namespace

CudaSession::CudaSession(std::shared_ptr<const CudaDriver> driver, CudaDeviceFacts facts,
                         CudaContext context, DeviceAllocator allocator)
    : driver_(std::move(driver)),
      facts_(std::move(facts)),
      context_(context),
      overlaps_kernels_(facts_.major >= kOverlappingMajor &&
                        driver_->version_number() >= kCudaProgrammaticGraphs),
      pool_(driver_, static_cast<size_t>(facts_.memory_bytes / kKeptMemoryDivisor),
            std::move(allocator)) {}

Result<std::shared_ptr<CudaSession>> CudaSession::open(std::shared_ptr<const CudaDriver> driver,
                                                       int index, DeviceAllocator allocator) {
  LFARM_ASSIGN_OR_RETURN(CudaDeviceFacts facts, driver->device(index));
  CudaContext context = nullptr;
  LFARM_RETURN_IF_ERROR(driver->check(driver->calls().retain_context(&context, facts.ordinal),
                                      "cuDevicePrimaryCtxRetain"));
  std::shared_ptr<CudaSession> session(
      new CudaSession(std::move(driver), std::move(facts), context, std::move(allocator)));
  CudaScope scope(*session);
  LFARM_RETURN_IF_ERROR(scope.status());
  for (CudaStream* stream : {&session->stream_, &session->capture_stream_}) {
    LFARM_RETURN_IF_ERROR(session->check(
        session->calls().create_stream(stream, kCudaStreamNonBlocking), "cuStreamCreate"));
  }
  session->pool_.set_place(session->facts_.ordinal, session->stream_);
  return session;
}

CudaSession::~CudaSession() {
  if (CudaScope scope(*this); scope.ok()) {
    if (order_event_ != nullptr) calls().destroy_event(order_event_);
    for (CudaEvent event : events_) calls().destroy_event(event);
    if (capture_stream_ != nullptr) calls().destroy_stream(capture_stream_);
    pool_.trim();
    if (stream_ != nullptr) calls().destroy_stream(stream_);
  }
  calls().release_context(facts_.ordinal);
}

Status CudaSession::put_in_order(CudaStream first, CudaStream last) {
  if (order_event_ == nullptr) {
    LFARM_ASSIGN_OR_RETURN(order_event_, take_event());
  }
  LFARM_RETURN_IF_ERROR(check(calls().record_event(order_event_, first), "cuEventRecord"));
  return check(calls().wait_event(last, order_event_, 0), "cuStreamWaitEvent");
}

Result<int> CudaSession::capture_status(CudaStream stream) {
  int status = kCudaCaptureNone;
  LFARM_RETURN_IF_ERROR(check(calls().is_capturing(stream, &status), "cuStreamIsCapturing"));
  return status;
}

// Waiting for events of other streams would break a capture.
Status CudaSession::order_borrowed(CudaStream stream) {
  LFARM_ASSIGN_OR_RETURN(int status, capture_status(stream));
  borrowed_captures_ = status != kCudaCaptureNone;
  if (!borrowed_captures_) return put_in_order(stream_, stream);
  if (status != kCudaCaptureActive) {
    return invalid_input("the stream's capture has failed before: end it, and look for its error");
  }
  return check(calls().synchronise_stream(stream_), "cuStreamSynchronize");
}

Status CudaSession::borrow(CudaStream stream) {
  turn_mutex_.lock();
  Status ordered = order_borrowed(stream);
  if (!ordered.ok()) {
    turn_mutex_.unlock();
    return ordered;
  }
  borrowed_ = stream;
  borrower_ = std::this_thread::get_id();
  return {};
}

Status CudaSession::give_stream_back() {
  Status ordered = borrowed_captures_ ? Status() : put_in_order(borrowed_, stream_);
  borrower_ = std::thread::id();
  turn_mutex_.unlock();
  return ordered;
}

CudaScope::CudaScope(CudaSession& session) : calls_(session.calls()) {
  calls_.exchange_capture_mode(&capture_mode_);
  status_ = session.check(calls_.get_context(&before_), "cuCtxGetCurrent");
  if (!status_.ok() || before_ == session.context()) return;
  status_ = session.check(calls_.set_context(session.context()), "cuCtxSetCurrent");
  is_changed_ = status_.ok();
}

CudaScope::~CudaScope() {
  if (is_changed_) calls_.set_context(before_);
  calls_.exchange_capture_mode(&capture_mode_);
}

Result<CudaEvent> CudaSession::take_event() {
  {
    std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      CudaEvent event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  CudaEvent event = nullptr;
  LFARM_RETURN_IF_ERROR(check(calls().create_event(&event, 0), "cuEventCreate"));
  return event;
}

void CudaSession::give_back(std::vector<CudaEvent>& events) {
  std::lock_guard lock(mutex_);
  events_.insert(events_.end(), events.begin(), events.end());
  events.clear();
}

}  // namespace common
