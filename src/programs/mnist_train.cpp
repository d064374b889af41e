// mnist_train: trains a network on MNIST.
//
//   mpirun -np 4 mnist_train --data 'data/mnist/train-*' --train-dir runs/mnist
//   mnist_train --config jobs/recipes/mnist_fast.cfg --eval-data 'data/mnist/test-*'
#include "carillon/app/mains.h"

int main(int argc, char** argv) {
  return carillon::training_main("mnist_train", carillon::mnist_program(), argc, argv);
}
