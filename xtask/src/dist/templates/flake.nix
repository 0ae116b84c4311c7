{
  description = "@description@";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      sources = {
@sources@
      };
      package =
        system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
        in
        pkgs.stdenvNoCC.mkDerivation {
          pname = "opgate";
          version = "@version@";
          src = pkgs.fetchurl sources.${system};
          nativeBuildInputs = [ pkgs.installShellFiles ];
          installPhase = ''
            install -D -m 755 opgate "$out/bin/opgate"
            install -D -m 644 -t "$out/share/doc/opgate" LICENSE THIRD-PARTY-NOTICES.txt
            installManPage man/*.1
            installShellCompletion --bash completions/opgate.bash
            installShellCompletion --zsh completions/_opgate
            installShellCompletion --fish completions/opgate.fish
          '';
          meta = {
            description = "@description@";
@homepage@
            license = pkgs.lib.licenses.asl20;
            mainProgram = "opgate";
          };
        };
    in
    {
      packages = builtins.mapAttrs (system: _: { default = package system; }) sources;
      apps = builtins.mapAttrs (system: _: {
        default = {
          type = "app";
          program = "${self.packages.${system}.default}/bin/opgate";
        };
      }) sources;
    };
}
