"""Registered names of the learners, so that the first use of one imports that learner alone; in the order of tables."""

NAMED = {
    "n_slack": "NSlack",
    "one_slack": "OneSlack",
    "eg": "EG",
    "extragradient": "Extragradient",
    "entropic_extragradient": "EntropicExtragradient",
    "frank_wolfe": "FrankWolfe",
    "batch_frank_wolfe": "BatchFrankWolfe",
    "joint_qp": "JointQP",
    "lbfgs": "LBFGS",
    "mira": "KBestMIRA",
    "exact_dca": "ExactDCA",
    "perceptron": "Perceptron",
    "sgd": "SGD",
    "dca": "DCA",
    "online_eg": "OnlineEG",
    "projected_gradient": "ProjectedGradient",
    "sdca": "SDCA",
    "smo": "SMO",
    "smo_eg": "HybridEG",
    "subgradient": "Subgradient",
}
