// Counts and distributions of one process, in Prometheus' text format.
// Source of the format: https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace prometheus {
class Counter;
class Histogram;
}  // namespace prometheus

namespace common {

using MetricLabels = std::map<std::string, std::string>;

// Refers to a metric of a Metrics, and lives no longer. Thread-safe.
class Counter {
 public:
  explicit Counter(prometheus::Counter& counter) : counter_(counter) {}
  void add(double amount = 1);  // amount >= 0

 private:
  prometheus::Counter& counter_;
};

class Histogram {
 public:
  explicit Histogram(prometheus::Histogram& histogram) : histogram_(histogram) {}
  void observe(double value);

 private:
  prometheus::Histogram& histogram_;
};

// A state as it is now: computed when it is asked for.
struct GaugeFamily {
  std::string name;
  std::string help;
  std::vector<std::pair<MetricLabels, double>> samples;
};

// Thread-safe. Names and units follow Prometheus' conventions: seconds, bytes, `_total` for
// counters.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The same name and labels give the same metric.
  Counter counter(const std::string& name, const std::string& help,
                  const MetricLabels& labels = {});
  // `bounds`: the upper ends of its buckets, ascending.
  Histogram histogram(const std::string& name, const std::string& help,
                      const std::vector<double>& bounds, const MetricLabels& labels = {});

  // Everything, and these gauges. Label values may hold any bytes: the format escapes them.
  std::string text(const std::vector<GaugeFamily>& gauges) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What every process says of itself: memory, processor time, open files.
std::vector<GaugeFamily> process_gauges();

}  // namespace common
