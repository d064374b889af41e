// Network: the description of a neural network, together with the settings of its training.
//
// A network is a value. It does not depend on ranks, devices or programs. Each program lists the networks that it can
// train. A checkpoint stores the description, so evaluations need no list. build_network() turns a network into a graph
// that is ready to run.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "carillon/core/sample.h"
#include "carillon/graph/graph.h"
#include "carillon/graph/network_description.h"
#include "carillon/tasks/task.h"

namespace carillon {

/// Normalizes each channel: y = (v / 255 - mean) / deviation. v: pixel, 0 to 255.
struct PixelNormalization {
  std::array<float, 3> mean = {}, deviation = {1.0f, 1.0f, 1.0f};
};

/// The settings from which a network is made. The settings come from the data, the task and the options. Only `image`
/// and `outputs` may influence the names and shapes of the variables.
struct NetworkSettings {
  ImageShape image;  ///< shape of the records
  /// Fraction of image bytes that are not 0, from 0 to 1. The network uses it only to run faster. 1: unknown.
  float density = 1.0f;
  std::int64_t outputs = 0;     ///< output elements per sample (Task::outputs)
  float pixel_scale = 1.0f;     ///< factor by which the network multiplies the uint8 pixels; networks that normalise
                                ///< pixels ignore it
  float regularization = 0.0f;  ///< factor of the L2 loss of the regularised weights
  bool distort = false;         ///< distort training images at random, if the network supports it
  /// Normalization that replaces the network's normalization; only for images with 3 channels.
  std::optional<PixelNormalization> normalization = std::nullopt;
  float drop_path = 0.0f;          ///< stochastic depth: drop rate of the last residual block, below 1
  std::uint64_t record_count = 0;  ///< training set size; required before training starts
  std::uint64_t seed = 0;          ///< seed of the distortion and of all other random draws
};

/// What a graph is built for.
enum class Purpose {
  training,    ///< training: the graph includes the loss
  evaluation,  ///< the graph ends at the output, and images are not distorted
  summary,     ///< as training, but without the loss; the outputs of all layers are also returned
};

/// Initial values of one variable that are computed from the training set, not drawn. They are used when a training
/// starts, but not when it resumes.
struct ValuesOfData {
  std::string variable;
  std::int64_t max_records = 0;  ///< `compute` gets this number of records, from record 0 on; all records if there are
                                 ///< fewer
  /// Returns the values, row-major. `images`: for each record, a pointer to its decoded image, uint8 of the shape
  /// Network::image.
  std::function<std::vector<float>(std::span<const std::uint8_t* const> images)> compute;
};

/// Initial values of one variable or buffer, row-major. They replace the drawn values.
struct GivenValues {
  std::string variable;
  std::vector<float> values;
};

/// Random rotation, zoom and shift of each training image (kernels/image_input). 0: disabled.
struct WarpSettings {
  double rotation = 0.0;   ///< maximum angle in degrees, both directions
  double zoom = 0.0;       ///< the zoom factor is drawn from [1 - zoom, 1 + zoom]
  double shift = 0.0;      ///< maximum shift as a fraction of height and width, both directions
  std::uint64_t seed = 0;  ///< seed of the draws
};

/// Mixing of pairs of samples in a training batch (kernels/shared/mixing.h). All samples that are processed at once
/// (the rank's batch or a micro-batch) share one draw. 0: disabled.
struct MixingSettings {
  double mixup = 0.0, cutmix = 0.0;  ///< alpha; lambda is drawn from Beta(alpha, alpha)
  std::uint64_t seed = 0;
};

/// A network that a program can train. Users select it by its NetworkDescription::name from the program's list. The
/// first op reads the records and returns the images [batch, height, width, channels]. Summaries can show images with 1
/// or 3 channels.
struct Network : NetworkDescription {
  // As in NetworkSettings:
  bool distort = false;
  std::uint64_t record_count = 0, seed = 0;
  std::vector<ValuesOfData> values_of_data = {};  ///< variables that are neither in this list nor in `given` have drawn
                                                  ///< values
  /// Initial values from a file; null: none.
  std::shared_ptr<const std::vector<GivenValues>> given = {};
  std::vector<std::string> notes = {};  ///< lines that a training prints when it starts
  WarpSettings warp = {};               ///< warps the images; if set, the first op must be an image_input
  MixingSettings mixing = {};           ///< mixes the warped images; the loss mixes targets in the same way
  bool sync_batch_norm = false;         ///< in training, batch norms compute their statistics over the batches of all
                                        ///< ranks
  bool freeze_batch_norm = false;       ///< batch norms use their running statistics in training and do not change them
  /// Shell patterns of variables that are never trained. If the patterns match all variables of a batch norm, the batch
  /// norm is frozen, as with `freeze_batch_norm`.
  std::vector<std::string> frozen_variables = {};
  std::vector<std::string> l2_exclude = {};  ///< shell patterns of variables without L2 loss
};

/// Makes a network from the ops that `add_layers` adds to a graph. `add_layers` calls the functions of
/// `kernels/<op>/<op>.h` and returns the output [batch, outputs]. make_network calls `add_layers` once, with a graph of
/// one sample; build_network adds the same ops to graphs of any batch size. Errors: as describe_network.
Network make_network(const std::string& name, const NetworkSettings& settings,
                     const std::function<Value(Graph& graph)>& add_layers);

/// Makes a network. Errors: usage (the network does not support this shape of images; the message names the shape).
using MakeNetwork = std::function<Network(const NetworkSettings& settings)>;

/// A network's graph, ready to run.
struct BuiltNetwork {
  /// A layer that has variables. `output` is the layer's output. Exception: if the only op that reads the layer's
  /// output is a ReLU, `output` is the ReLU's output.
  struct Layer {
    std::string name;
    Value output;
  };

  Graph graph;
  Value input;                ///< the images that the first layer reads, after warping and mixing
  Value output;               ///< [batch, outputs]
  Value loss;                 ///< [] the mean loss over the batch; exists only for training with a task
  std::vector<Layer> layers;  ///< only for summaries: the outputs of all layers stay readable after a forward pass
};

struct BuildSettings {
  std::int64_t batch_size = 1;
  Arithmetic arithmetic = Arithmetic::fp32;
  Purpose purpose = Purpose::training;
  DeviceKind device = DeviceKind::cpu;  ///< kind of device on which the graph runs
};

/// Builds the graph of a network. The graph has the network's ops and, after the first op, the op that mixes images.
/// Graph passes then fuse ops, and ensure that each value with a gradient has one reader (src/graph/passes.h). A graph
/// for training also has the target and the loss of `task`. On GPUs the passes may change intermediate values (deferred
/// biases, padded channels), except in a graph for a summary.
///
/// Errors: failed (no op reads a value; `warp` is set but the network has no image_input; `warp` or `mixing` is set but
/// the network has no image-shaped input; the output size differs from Task::outputs; the loss is not a scalar), usage
/// (sync_batch_norm or freeze_batch_norm is set but the network has no batch norm; the loss cannot mix targets).
BuiltNetwork build_network(const Network& network, const Task& task, const BuildSettings& settings);
/// Builds the graph as the overload above does, but without target and loss.
BuiltNetwork build_network(const Network& network, const BuildSettings& settings);

/// Number of elements of all variables together.
std::int64_t parameter_count(const Graph& graph);
/// Number of multiply-add operations in the forward pass of one sample. Counts only operations that use a parameter
/// with at least 2 dimensions, such as weights or filters. Does not count biases, batch norm and ops without
/// parameters.
std::int64_t multiply_adds(const Graph& graph);
/// Returns the multiply-add operations of one op in the forward pass of one sample.
std::int64_t multiply_adds(const Graph& graph, const Graph::Node& node);

}  // namespace carillon
