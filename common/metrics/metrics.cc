#include "common/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

namespace common {

void Counter::add(double amount) { counter_.Increment(amount); }
void Histogram::observe(double value) { histogram_.Observe(value); }

struct Metrics::State {
  prometheus::Registry registry;
  mutable std::mutex mutex;
  std::map<std::string, prometheus::Family<prometheus::Counter>*> counters;
  std::map<std::string, prometheus::Family<prometheus::Histogram>*> histograms;
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

Counter Metrics::counter(const std::string& name, const std::string& help,
                         const MetricLabels& labels) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  auto& family = state_->counters[name];
  if (family == nullptr) {
    family = &prometheus::BuildCounter().Name(name).Help(help).Register(state_->registry);
  }
  return Counter(family->Add(labels));
}

Histogram Metrics::histogram(const std::string& name, const std::string& help,
                             const std::vector<double>& bounds, const MetricLabels& labels) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  auto& family = state_->histograms[name];
  if (family == nullptr) {
    family = &prometheus::BuildHistogram().Name(name).Help(help).Register(state_->registry);
  }
  return Histogram(family->Add(labels, bounds));
}

std::string Metrics::text(const std::vector<GaugeFamily>& gauges) const {
  std::vector<prometheus::MetricFamily> families = state_->registry.Collect();
  for (const GaugeFamily& gauge : gauges) {
    prometheus::MetricFamily family;
    family.name = gauge.name;
    family.help = gauge.help;
    family.type = prometheus::MetricType::Gauge;
    for (const auto& [labels, value] : gauge.samples) {
      prometheus::ClientMetric metric;
      for (const auto& [name, text] : labels) metric.label.push_back({name, text});
      metric.gauge.value = value;
      family.metric.push_back(std::move(metric));
    }
    families.push_back(std::move(family));
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return out.str();
}

std::vector<GaugeFamily> process_gauges() {
  long pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  std::error_code error;
  auto files = std::filesystem::directory_iterator("/proc/self/fd", error);
  auto open_files = error ? 0 : std::distance(begin(files), end(files));
  return {{"process_resident_memory_bytes",
           "Memory in use",
           {{{}, static_cast<double>(resident * ::sysconf(_SC_PAGESIZE))}}},
          {"process_cpu_seconds",
           "Processor time taken since the start",
           {{{}, seconds(usage.ru_utime) + seconds(usage.ru_stime)}}},
          {"process_open_fds", "Open files", {{{}, static_cast<double>(open_files)}}}};
}

}  // namespace common
