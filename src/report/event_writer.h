// EventWriter: a TensorBoard event file, `train_dir/events.out.tfevents.<seconds>.<host>.<pid>`.
//
// TFRecord framing around tensorflow.Event messages (field numbers: tensorflow/core/util/event.proto,
// framework/summary.proto, framework/graph.proto, framework/tensor.proto). The first event is file_version
// "brain.Event:2", flushed immediately. On resume, or if an earlier run left event files, a SessionLog START at the
// first step follows. This event makes readers drop the events that the stopped run wrote from that step on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/tensor.h"
#include "src/images/picture.h"
#include "src/report/histogram.h"

namespace carillon {

/// A node of the graph that TensorBoard draws: tensorflow.NodeDef.
struct GraphNode {
  std::string name;
  std::string op;
  std::vector<std::string> inputs;  ///< names of nodes
  std::string device;               ///< "/job:worker/task:0/device:CPU:0"
  std::optional<Shape> shape = {};  ///< shape of its output, for the edges; none: unknown
};

class EventWriter {
 public:
  /// `first_step` > 0: a resumed run. `warn` is called with the first error; training continues.
  EventWriter(const std::filesystem::path& train_dir, std::int64_t first_step,
              std::function<void(const std::string&)> warn);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void graph(std::span<const GraphNode> nodes);
  void scalar(const std::string& tag, std::int64_t step, double value);
  void histogram(const std::string& tag, std::int64_t step, const Histogram& source);
  /// Logs Markdown for the Text page.
  void text(const std::string& tag, std::int64_t step, const std::string& markdown);
  /// Logs an image, stored as a PNG.
  void image(const std::string& tag, std::int64_t step, const Picture& picture);
  void flush();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace carillon
